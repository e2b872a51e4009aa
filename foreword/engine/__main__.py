"""Entry of the engine process: `python -m foreword.engine FD PARENT`, started by `EngineProcess`."""

from __future__ import annotations

import sys

from foreword.engine.child import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
