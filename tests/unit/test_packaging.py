"""What is shipped: the wheel's files, its dependencies, the pins that were tested, the commands that it declares."""

import hashlib
import importlib
import importlib.metadata
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import hatch_build
from foreword._version import __version__
from foreword.extras import EXTRA_MODULES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
REQUIREMENTS = {
    "base": PROJECT["project"]["dependencies"],
    "build": PROJECT["build-system"]["requires"],
    "dev": PROJECT["dependency-groups"]["dev"],
    **{name: requirements for name, requirements in EXTRAS.items() if name != "all"},
}
PACKAGES = {"foreword", "draft_service", "target_service", "orchestrator", "loadtest"}
METADATA = f"foreword-{__version__}.dist-info"
ENTRY_POINTS = [
    target
    for group in (PROJECT["project"]["scripts"], *PROJECT["project"]["entry-points"].values())
    for target in group.values()
]


def pins() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in lines)}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_base_is_the_client_sdk_and_nothing_more():
    assert names(REQUIREMENTS["base"]) == {"grpcio", "numpy", "protobuf", "pydantic"}


def test_all_means_every_extra():
    (line,) = EXTRAS["all"]
    assert Requirement(line).extras == EXTRAS.keys() - {"all"}


@pytest.mark.parametrize("part", REQUIREMENTS)
def test_every_requirement_admits_the_pin_that_was_tested(part):
    pinned = pins()
    for line in REQUIREMENTS[part]:
        requirement = Requirement(line)
        version = pinned[canonicalize_name(requirement.name)]
        assert version.local is None, f"{requirement.name}: a local build cannot be installed elsewhere"
        assert requirement.specifier.contains(version), f"{requirement}: the pin is {version}"


def floor(requirement: Requirement) -> Version | None:
    """Return the least version that is admitted, None where any is."""
    return max((Version(part.version) for part in requirement.specifier if part.operator == ">="), default=None)


def test_floors_admit_each_other():
    """What is installed and is the least of its kind that we admit must admit the least of the others."""
    lines = [Requirement(line) for part in REQUIREMENTS.values() for line in part]
    floors = {canonicalize_name(line.name): least for line in lines if (least := floor(line)) is not None}
    for name, least in floors.items():
        if least != pins()[name]:
            continue  # the metadata that is here is that of the pin
        for wanted in map(Requirement, importlib.metadata.requires(name) or ()):
            other = canonicalize_name(wanted.name)
            if other in floors and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
                assert floors[other] >= (floor(wanted) or floors[other]), f"{other}: {name} {least} wants {wanted}"


def test_synthetic_models_need_no_library_of_the_extra_for_real_ones():
    blocked = [module for extra in ("models", "grammar", "bench", "ray", "http") for module in EXTRA_MODULES[extra]]
    modules = sorted({target.partition(":")[0] for target in ENTRY_POINTS})
    block = f"import sys; sys.modules.update(dict.fromkeys({blocked}))"
    code = f"{block}; import importlib; [*map(importlib.import_module, {modules})]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_packages_of_grpc_have_one_version():
    versions = {name: version for name, version in pins().items() if name.startswith("grpcio")}
    wanted = {name for part in REQUIREMENTS.values() for name in names(part) if name.startswith("grpcio")}
    assert wanted <= versions.keys()
    assert len(set(versions.values())) == 1, versions


def test_the_stubs_here_are_those_of_the_contract(tmp_path):
    hatch_build.write_stubs(ROOT, tmp_path)
    fresh = {path.name: path.read_text() for path in (tmp_path / "foreword" / "v1").iterdir()}
    here = {path.name: path.read_text() for path in (ROOT / "foreword" / "v1").glob("*.py*")}
    assert fresh.keys() == here.keys()
    assert [name for name in fresh if fresh[name] != here[name]] == [], "stale: `make proto` writes them again"


def test_a_contract_that_protoc_refuses_stops_the_build(tmp_path, capfd):
    (tmp_path / "protos").mkdir()
    (tmp_path / "protos" / "bad.proto").write_text("syntax = 'proto3'; message {")
    with pytest.raises(RuntimeError, match="got exit status 1"):
        hatch_build.write_stubs(tmp_path, tmp_path)
    assert "bad.proto:1:28" in capfd.readouterr().err


def test_refreshing_stubs_drops_old_ones_and_leaves_equal_ones_alone(tmp_path):
    (tmp_path / "protos").symlink_to(ROOT / "protos")
    hatch_build.refresh_stubs(tmp_path)
    home = tmp_path / "foreword" / "v1"
    changed, gone, same = home / "draft_pb2.py", home / "old_pb2.py", home / "target_pb2.py"
    wanted, stamp = changed.read_text(), same.stat()
    changed.write_text("")
    gone.touch()
    hatch_build.refresh_stubs(tmp_path)
    assert changed.read_text() == wanted
    assert not gone.exists()
    assert (same.stat().st_ino, same.stat().st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns)
    assert {path.suffix for path in home.iterdir()} == {".py", ".pyi"}


def test_the_wheel_holds_the_packages_and_nothing_else(wheel):
    files = set(wheel.namelist())
    assert {name.partition("/")[0] for name in files} == PACKAGES | {METADATA}
    modules = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert {name for name in files if name.endswith(".py")} == modules
    assert files >= {f"{package}/py.typed" for package in PACKAGES}
    assert files >= {"loadtest/prompts/dev.jsonl", f"{METADATA}/licenses/LICENSE", f"{METADATA}/licenses/NOTICE"}


def test_the_wheel_holds_the_stubs_of_every_proto(wheel):
    endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
    stubs = {f"foreword/v1/{path.stem}{end}" for path in (ROOT / "protos/foreword/v1").iterdir() for end in endings}
    assert {name for name in wheel.namelist() if "_pb2" in name} == stubs


def test_the_sdk_imports_from_the_wheel_alone(wheel, tmp_path):
    wheel.extractall(tmp_path)
    code = "import foreword, foreword.v1.target_pb2, foreword.v1.target_pb2_grpc; print(foreword.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.strip()) == (0, str(tmp_path / "foreword" / "__init__.py")), run.stderr


def test_two_builds_of_one_tree_are_equal(wheel, tmp_path):
    (again,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in (again, wheel.filename)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("target", ENTRY_POINTS)
def test_every_command_that_is_declared_exists(target):
    module, _, name = target.partition(":")
    assert callable(getattr(importlib.import_module(module), name))
