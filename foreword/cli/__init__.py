"""The `foreword` command. Sub-commands are entry points of the packages that own them; output is for here only."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from foreword.cli.interrupts import EXIT_INTERRUPTED, quietly_interrupted


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted.

    Everything is imported here, so that an interruption of that has no traceback either.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    with quietly_interrupted():
        from foreword.extras import missing_extra
        from foreword.settings.environment import use_direct_poller, use_own_kernels

        use_direct_poller()
        use_own_kernels()
        try:
            from foreword.cli.app import run
        except ModuleNotFoundError as error:
            sys.stderr.write(f"foreword: {missing_extra(error)}\n")
            return 1
    return run(argv)
