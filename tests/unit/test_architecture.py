"""The arrows between packages: they hold in this checkout, and each kind of violation is caught where it is planted."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.architecture import arrows, habits
from scripts.architecture.source import PACKAGES, Tree

ROOT = Path(__file__).resolve().parents[2]


def plant(root: Path, files: dict[str, str]) -> list[str]:
    """Write modules, by dotted name, beside packages that are empty but for them; return what is found."""
    for name, text in ({f"{package}.__init__": "" for package in PACKAGES} | files).items():
        path = root / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = Tree.read(root)
    return sorted(str(found) for check in (arrows, habits) for found in check.violations(tree))


def test_this_checkout_keeps_the_rules():
    tree = Tree.read(ROOT)
    assert set(tree.modules) >= {"foreword.errors", "foreword.protocol.messages", "loadtest.prompts"}
    assert [str(found) for check in (arrows, habits) for found in check.violations(tree)] == []


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("foreword.models.load", "import target_service"),
        ("foreword.cli.up", "from importlib import import_module\nimport_module('draft_service.commands')"),
        ("foreword.cli.up", "def start():\n    from loadtest import prompts"),
        ("foreword.testing.stack", "import tests.helpers"),
        ("draft_service.app", "from target_service import engine"),
        ("draft_service.app", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import orchestrator.pools"),
        ("target_service.app", "import orchestrator"),
        ("orchestrator.app", "from draft_service.core import drafting"),
        ("orchestrator.app", "import scripts.architecture"),
        ("loadtest.simulator", "from orchestrator import front"),
        ("loadtest.overhead", "import target_service.engine"),
    ],
)
def test_services_are_strangers(tmp_path, where, text):
    (found,) = plant(tmp_path, {where: text})
    assert where.partition(".")[0] in found
    assert "may import" in found


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("foreword.rpc.server", "from foreword.v1 import target_pb2"),
        ("foreword.client.stream", "from foreword.v1.generation_pb2 import GenerateRequest"),
        ("target_service.servicer", "import foreword.v1.target_pb2"),
        ("foreword.rpc.server", "from foreword import v1"),
        ("foreword.cli.doctor", "from foreword.v1 import generation_pb2_grpc"),
        ("orchestrator.servicer", "from foreword.v1 import generation_pb2_grpc"),
        ("draft_service.drafting", "from foreword.v1 import target_pb2_grpc"),
    ],
)
def test_generated_code_stays_where_it_belongs(tmp_path, where, text):
    (found,) = plant(tmp_path, {where: text})
    assert "generated code is for foreword.wire" in found


@pytest.mark.parametrize("module", ["grpc", "asyncio", "torch", "transformers", "time", "os", "socket", "subprocess"])
@pytest.mark.parametrize(
    "where",
    [
        "foreword.protocol.words",
        "foreword.laws.law",
        "foreword.addresses.philox",
        "foreword.acceptance.match",
        "foreword.errors",
        "target_service.core.steps",
        "orchestrator.core.gamma.price",
    ],
)
def test_pure_code_knows_no_effects(tmp_path, where, module):
    found = plant(tmp_path, {where: f"from {module} import anything"})
    assert any("is pure and imports" in line for line in found)


@pytest.mark.parametrize(
    "text",
    [
        "from foreword.addresses.philox_torch import integers",
        "from foreword.addresses import philox_torch",
        "from ..addresses import philox_torch",
        "from foreword.rpc.link import Link",
        "import foreword",
        "from foreword.v1 import common_pb2",
    ],
)
def test_pure_code_imports_pure_code(tmp_path, text):
    files = {"foreword.addresses.philox_torch": "import torch", "foreword.rpc.link": "import grpc"}
    found = plant(tmp_path, files | {"foreword.laws.law": text})
    assert any("foreword.laws.law is pure and imports foreword" in line for line in found)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("foreword.__init__", "import torch"),
        ("foreword.client.stream", "import structlog"),
        ("foreword.wire.packing", "def f():\n    import typer"),
        ("foreword.wire.info", "from google.rpc import error_details_pb2"),
        ("foreword.rpc.options", "import grpc_status"),
        ("foreword.rpc.__init__", "import prometheus_client"),
    ],
)
def test_the_sdk_loads_base_dependencies_only(tmp_path, where, text):
    files = {"foreword.client.channel": "from foreword.rpc.options import OPTIONS", "foreword.rpc.options": ""}
    (found,) = plant(tmp_path, files | {where: text})
    assert "is loaded by the client SDK" in found


def test_imports_in_a_circle_are_found(tmp_path):
    (found,) = plant(
        tmp_path,
        {
            "draft_service.a": "from draft_service.b import x",
            "draft_service.b": "def f():\n    from . import c",
            "draft_service.c": "import draft_service.a",
            "draft_service.above": "import draft_service.a",
            "draft_service.below": "",
        },
    )
    assert found.endswith("in a circle: draft_service.a, draft_service.b, draft_service.c")


@pytest.mark.parametrize(
    "text", ["import os\nos.environ['HOME']", "from os import getenv", "import os\nchild = {**os.environ}"]
)
def test_the_environment_is_for_settings(tmp_path, text):
    assert "reads the environment" in plant(tmp_path / "a", {"target_service.app": text})[0]
    assert plant(tmp_path / "b", {"target_service.settings": text, "foreword.settings.environment": text}) == []


def test_printing_is_for_the_command_line(tmp_path):
    assert "prints" in plant(tmp_path / "a", {"target_service.app": "print(1)"})[0]
    assert plant(tmp_path / "b", {"foreword.cli.output": "print(1)"}) == []


def test_a_file_has_400_lines_at_most(tmp_path):
    assert plant(tmp_path / "a", {"loadtest.sweep": "\n" * 400}) == []
    assert "got 401 lines, wanted at most 400" in plant(tmp_path / "b", {"loadtest.sweep": "\n" * 401})[0]


def test_what_is_allowed_passes(tmp_path):
    allowed = {
        "foreword.wire.target": "from foreword.v1 import target_pb2, target_pb2_grpc\nimport google.protobuf",
        "foreword.rpc.server": "import grpc_status, structlog",
        "foreword.addresses.philox_torch": "import torch",
        "foreword.laws.law": "import numpy as np\nimport math\nfrom foreword.errors import InvalidField",
        "foreword.errors": "from typing import ClassVar",
        "foreword.clock": "import asyncio, time",
        "orchestrator.core.session": "from foreword.clock import Clock\nfrom orchestrator.core.ports import Link",
        "orchestrator.core.ports": "from foreword.laws import law",
        "target_service.engine": "import torch\nfrom foreword.wire import target",
        "loadtest.simulator": "from orchestrator.core.session import Session",
        "foreword.v1.target_pb2": "import anything",
    }
    assert plant(tmp_path, allowed) == []


@pytest.mark.parametrize("module", ["foreword", "foreword.client", "foreword.wire", "foreword.testing.synthetic"])
def test_importing_the_sdk_loads_base_dependencies_only(module):
    # What the dependencies load by themselves is theirs: grpc looks for its sister packages.
    code = f"import sys, grpc.aio, google.protobuf, numpy, pydantic; before = set(sys.modules); import {module}"
    show = "print(*set(sys.modules) - before)"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; {show}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert loaded - sys.stdlib_module_names - {"foreword", "grpc", "google", "numpy", "pydantic"} == set()
