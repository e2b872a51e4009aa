"""Build hook: writes the stubs of protos/ into foreword/v1 before a wheel, an sdist or an editable install is made.

`python hatch_build.py` does the same in a checkout.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INIT = '"""Generated from protos/foreword/v1 by hatch_build.py; not committed, not to be edited."""\n'


def write_stubs(root: Path, out: Path) -> None:
    """Write the stubs of `root`/protos, messages (py, pyi) and services (grpc), to `out`/foreword/v1.

    Raises RuntimeError if protoc refuses; it says why on stderr.
    """
    from grpc_tools import protoc  # a build needs it, the import of this file does not

    protos = sorted(map(str, (root / "protos").rglob("*.proto")))
    outputs = (f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python"))
    if status := protoc.main(["protoc", f"-I{root / 'protos'}", *outputs, *protos]):
        raise RuntimeError(f"protoc: got exit status {status} for {root / 'protos'}, wanted 0")
    (out / "foreword" / "v1" / "__init__.py").write_text(INIT)


def refresh_stubs(root: Path) -> None:
    """Make `root`/foreword/v1 hold the stubs of `root`/protos and no others; what would not change is left alone."""
    home = root / "foreword" / "v1"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".new-") as folder:
        write_stubs(root, Path(folder))
        fresh = {path.name: path for path in Path(folder, "foreword", "v1").iterdir()}
        for name, path in fresh.items():
            known = home / name
            if not known.exists() or known.read_bytes() != path.read_bytes():
                path.replace(known)  # in one move: a process that imports meanwhile sees the old file or the new
        for path in home.glob("*.py*"):
            if path.name not in fresh:
                path.unlink()


class StubsHook(BuildHookInterface[Any]):
    """Hatchling calls it before every target that it builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refresh the stubs of the tree that is being built."""
        refresh_stubs(Path(self.root))


if __name__ == "__main__":
    refresh_stubs(Path(__file__).resolve().parent)
