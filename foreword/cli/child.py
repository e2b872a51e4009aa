"""`python -m foreword.cli.child …`: a `foreword` command that ends when the process that started it does.

Its stdin is a pipe from that process; the end of it, however it came about, counts as SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from foreword.cli import main

_GRACE_S = 20.0


def _follow_parent() -> None:
    while os.read(0, 4096):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_follow_parent, name="parent", daemon=True).start()
    sys.exit(main())
