"""Print what breaks the rules in this checkout; exit 1 if anything does."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.architecture import arrows, habits
from scripts.architecture.source import Tree

if __name__ == "__main__":
    tree = Tree.read(Path(__file__).resolve().parents[2])
    found = sorted({str(violation) for check in (arrows, habits) for violation in check.violations(tree)})
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    sys.exit(1 if found else 0)
