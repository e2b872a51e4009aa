"""The `foreword` command. Sub-commands are entry points of the packages that own them; output is for here only."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from foreword.extras import missing_extra
from foreword.settings.environment import use_direct_poller

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    use_direct_poller()
    try:
        from foreword.cli.app import run

        return run(sys.argv[1:] if argv is None else argv)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"foreword: {missing_extra(error)}\n")
        return 1
    except KeyboardInterrupt:  # during the imports, which no command has begun to handle
        return _INTERRUPTED
