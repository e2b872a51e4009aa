"""Files of weights, written whole, and for everybody whom the umask lets read: safetensors makes them private."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, save: Callable[[Path], None]) -> None:
    """Have `save` write a file that appears at `path` whole or not at all, with the mode of any new file there."""
    partial = path.with_name(f"{path.name}.partial")
    save(partial)
    share(partial)
    partial.replace(path)


def share(path: Path) -> None:
    """Give a file the mode that any new file in its folder gets."""
    # A new file tells it: the umask itself can only be read by setting it, for all threads.
    fresh = path.with_name(f"{path.name}.mode")
    fresh.unlink(missing_ok=True)
    fresh.touch()
    try:
        path.chmod(stat.S_IMODE(fresh.stat().st_mode))
    finally:
        fresh.unlink()


def share_weights(folder: Path) -> None:
    """Do so for all weights of a model that `save_pretrained` wrote."""
    for path in folder.glob("*.safetensors"):
        share(path)
