"""The image's build: what its instructions promise, and planted faults that must be found."""

import re
import shlex
import shutil
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from draft_service.settings import DraftSettings
from foreword.settings.fields import leaves
from orchestrator.settings import OrchestratorSettings
from target_service.settings import TargetSettings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_OURS = {"PATH", "XDG_CACHE_HOME", "PIP_DISABLE_PIP_VERSION_CHECK"}
"""Where programs are, where libraries keep what they fetch, and pip's."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its stage (empty before the first), its word, and the rest in one line."""

    stage: str
    word: str
    rest: str


def parse(text: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found, stage = [], ""
    for line in filter(None, map(str.strip, lines.replace("\\\n", " ").splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
        found.append(Instruction(stage, word, " ".join(rest.split())))
    return found


def faults(text: str) -> Iterator[str]:
    """Yield what is wrong with a Dockerfile."""
    instructions = parse(text)
    yield from _base(instructions)
    yield from _pip(instructions)
    yield from _final(instructions)
    yield from _variables(instructions)
    if re.search(r"https?://|\w+\.(org|io|com|dev)\b", text):
        yield "hosts: names one, wanted what builds configure"


def _base(instructions: list[Instruction]) -> Iterator[str]:
    stages = [i.rest for i in instructions if i.word == "FROM"]
    if not all(stage.startswith("${BASE_IMAGE} AS ") for stage in stages):
        yield f"FROM: {stages}, wanted ${{BASE_IMAGE}} alone"
    (default,) = [i.rest.partition("=")[2] for i in instructions if i.word == "ARG" and i.rest.startswith("BASE_IMAGE")]
    tag = default.partition(":")[2]
    if not re.match(r"\d+\.\d+", tag):
        yield f"BASE_IMAGE: {default}, wanted a release of it"


def _pip(instructions: list[Instruction]) -> Iterator[str]:
    for command in (c for i in instructions if i.word == "RUN" for c in i.rest.split("&&") if "pip install" in c):
        if "--constraint constraints.txt" not in command:
            yield f"pip: not held to constraints.txt: {command.strip()}"
        for extras in re.findall(r"'\.\[(.*?)]'", command):
            unknown = set(extras.split(",")) - PROJECT["project"]["optional-dependencies"].keys()
            if unknown:
                yield f"pip: no extras {sorted(unknown)}"
            if "--build-constraint constraints.txt" not in command:
                yield "pip: the build's own requirements are not held to constraints.txt"


def _final(instructions: list[Instruction]) -> Iterator[str]:
    last = [i for i in instructions if i.stage == "cpu"]
    if [i.stage for i in instructions][-1] != "cpu":
        yield "stages: the last is not cpu"
    if any(i.word == "COPY" and not i.rest.startswith("--from=builder ") for i in last):
        yield "COPY: something of the source is in the image"
    users = [i.rest for i in last if i.word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", users[-1]):
        yield f"USER: {users}, wanted a number that Kubernetes can tell from root"
    entries = [i.rest for i in last if i.word == "ENTRYPOINT"]
    if entries != ['["foreword"]'] or "foreword" not in PROJECT["project"]["scripts"]:
        yield f"ENTRYPOINT: {entries}, wanted foreword"


def _variables(instructions: list[Instruction]) -> Iterator[str]:
    kinds = (TargetSettings, DraftSettings, OrchestratorSettings)
    ours = {leaf.variable for kind in kinds for leaf in leaves(kind, str(kind.model_config["env_prefix"]))}
    set_here = {word.partition("=")[0] for i in instructions if i.word == "ENV" for word in shlex.split(i.rest)}
    if unknown := set_here - ours - NOT_OURS:
        yield f"ENV: no variables {sorted(unknown)}"


def ignored(path: str, patterns: list[str]) -> bool:
    """Return whether .dockerignore keeps a file out of the build: the last pattern that it or a folder of it fits."""
    parts = path.split("/")
    above = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    out = False
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        if any(
            fnmatch(name, bare) or (bare.startswith("**/") and fnmatch(name, bare[3:])) for name in [*above, *parts]
        ):
            out = not pattern.startswith("!")
    return out


def test_the_image_is_built_as_promised():
    assert list(faults(DOCKERFILE)) == []


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("python:3.11-slim-bookworm", "python:latest", "BASE_IMAGE"),
        ("FROM ${BASE_IMAGE} AS cpu", "FROM debian AS cpu", "FROM"),
        ("--constraint constraints.txt --upgrade pip", "--upgrade pip", "not held to constraints.txt"),
        ("--build-constraint constraints.txt", "", "build's own requirements"),
        (".[serve,http,models]", ".[serve,http,model]", "no extras ['model']"),
        ("USER 10001:10001", "USER root", "USER"),
        ("USER 10001:10001", "", "USER"),
        ('ENTRYPOINT ["foreword"]', "ENTRYPOINT foreword", "ENTRYPOINT"),
        ("    XDG_CACHE_HOME=", "    FOREWORD_TARGET_CACH=", "no variables ['FOREWORD_TARGET_CACH']"),
        ("COPY --from=builder /opt/foreword", "COPY . /src\nCOPY --from=builder /opt/foreword", "COPY"),
        ("torch\n", "torch --index-url https://wheels.example\n", "hosts"),
    ],
)
def test_finds_a_planted_fault(old, new, wanted):
    assert old in DOCKERFILE
    assert any(wanted in fault for fault in faults(DOCKERFILE.replace(old, new)))


def test_what_reaches_the_build_makes_the_same_wheel(tmp_path):
    """.dockerignore lets in what the wheel needs, stubs excepted, which the build writes; and little else."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    top = [path.name for path in ROOT.iterdir() if not ignored(path.name, patterns)]
    assert not {".git", ".venv", "tests", "docs", "k8s"} & set(top)
    for name in top:
        for path in [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"):
            relative = path.relative_to(ROOT).as_posix()
            if path.is_file() and not ignored(relative, patterns):
                (tmp_path / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, tmp_path / relative)
    assert not (tmp_path / "foreword" / "v1").exists()
    assert wheel_names(tmp_path, tmp_path / "built") == wheel_names(ROOT, tmp_path / "built-here")


def wheel_names(root: Path, out: Path) -> set[str]:
    """Build a wheel and return the names of its files."""
    (path,) = WheelBuilder(str(root)).build(directory=str(out), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("foreword/v1/target_pb2.py", True),
        ("foreword/wire/target.py", False),
        ("foreword/wire/__pycache__/target.cpython-311.pyc", True),
        ("protos/foreword/v1/target.proto", False),
        (".git/config", True),
        ("tests/conftest.py", True),
    ],
)
def test_reads_dockerignore_as_builders_do(path, out):
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored(path, [line for line in patterns if line and line[0] != "#"]) is out
