"""The hub of Hugging Face, through its own client and its own cache; no file but weights, configs and tokenizers."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foreword.errors import NotFound, Unavailable
from foreword.models.quiet import hub_output

_PATTERNS = ["*.json", "*.safetensors", "*.jinja"]
_FILE_SYSTEM = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
)
"""What a file system refuses with; a connection fails with none of these."""
_OTHERS = ["*/*", "consolidated*"]
"""The same weights once more, in other formats."""


def fetch_file(repository: str, filename: str, revision: str) -> Path:
    """Return the local path of one file of a repository; raise NotFound or Unavailable in one line."""
    from huggingface_hub import hf_hub_download

    return Path(_asked(repository, lambda: hf_hub_download(repository, filename, revision=revision)))


def fetch_repository(repository: str, revision: str | None) -> Path:
    """Return the local folder of a repository's weights, configs and tokenizer; what is cached is not fetched again.

    Raises NotFound where the hub has no such repository or cannot be asked and the cache has nothing.
    """
    from huggingface_hub import snapshot_download

    return Path(
        _asked(
            repository,
            lambda: snapshot_download(repository, revision=revision, allow_patterns=_PATTERNS, ignore_patterns=_OTHERS),
        )
    )


def cached_repository(repository: str, revision: str | None) -> Path | None:
    """Return the folder of a repository that the hub's cache holds, None where it does not."""
    from huggingface_hub import errors, snapshot_download

    try:
        folder = snapshot_download(repository, revision=revision, local_files_only=True)
    except errors.LocalEntryNotFoundError:
        return None
    return Path(folder)


def _asked(repository: str, call: Callable[[], Any]) -> str:
    from huggingface_hub import errors

    try:
        with hub_output():
            return str(call())
    except errors.GatedRepoError:
        raise NotFound(f"model {repository}: the hub wants a log-in for it: `hf auth login`") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise NotFound(f"model {repository}: not cached, and the hub cannot be asked ({_first_line(error)})") from None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
        raise NotFound(f"model {repository}: not on the hub ({_first_line(error)})") from None
    except OSError as error:
        if error.errno in _FILE_SYSTEM:
            raise Unavailable(
                f"model {repository}: the hub's cache cannot be written ({_first_line(error)})"
            ) from error
        raise Unavailable(f"model {repository}: the hub cannot be asked ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
