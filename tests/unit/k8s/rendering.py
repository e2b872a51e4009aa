"""Manifests as `kubectl kustomize` renders them, and the services that they run."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from draft_service.settings import DraftSettings
from foreword.settings.base import ServerSettings
from foreword.wire.methods import DRAFT_SERVICE, GENERATION_SERVICE, TARGET_SERVICE
from orchestrator.settings import OrchestratorSettings
from target_service.settings import TargetSettings

ROOT = Path(__file__).resolve().parents[3]
K8S = ROOT / "k8s"
KUBECTL = shutil.which("kubectl")

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """One of the three services: its settings, and the name that its readiness goes by."""

    settings: type[ServerSettings]
    health: str
    has_engine: bool


SERVICES = {
    "target": ServiceKind(TargetSettings, TARGET_SERVICE, has_engine=True),
    "draft": ServiceKind(DraftSettings, DRAFT_SERVICE, has_engine=True),
    "orchestrator": ServiceKind(OrchestratorSettings, GENERATION_SERVICE, has_engine=False),
}


def render(folder: Path) -> list[Manifest]:
    """Return the objects that kustomize makes of a folder."""
    done = subprocess.run([str(KUBECTL), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment of one service, with what is around it; `objects` are those rendered with it."""

    deployment: Manifest
    objects: list[Manifest]

    @property
    def name(self) -> str:
        return str(self.deployment["metadata"]["name"])

    @property
    def template(self) -> Manifest:
        return self.deployment["spec"]["template"]

    @property
    def pod(self) -> Manifest:
        return self.template["spec"]

    @property
    def container(self) -> Manifest:
        (container,) = self.pod["containers"]
        return container

    @property
    def service(self) -> str:
        """Which service it runs, by its command line."""
        serve, service, *_ = self.container["args"]
        assert serve == "serve"
        return service

    @property
    def kind(self) -> ServiceKind:
        return SERVICES[self.service]

    @property
    def config(self) -> Path:
        """The settings file that its command line names."""
        args = self.container["args"]
        return Path(args[args.index("--config") + 1])

    def config_text(self) -> str:
        """Return the file's content: from the ConfigMap that is mounted there."""
        (mount,) = [m for m in self.container["volumeMounts"] if Path(m["mountPath"]) == self.config.parent]
        (volume,) = [v for v in self.pod["volumes"] if v["name"] == mount["name"]]
        (config,) = named(self.objects, "ConfigMap", volume["configMap"]["name"])
        return str(config["data"][self.config.name])

    def config_values(self) -> dict[str, Any]:
        """Return the settings file as it parses, valid or not."""
        return yaml.safe_load(self.config_text())

    def port(self, setting: str = "listen") -> int:
        """Return the port that its settings bind."""
        return int(str(self.config_values()[setting]).rpartition(":")[2])


def workloads(objects: list[Manifest]) -> list[Workload]:
    """Return the Deployments among the objects."""
    return [Workload(found, objects) for found in objects if found["kind"] == "Deployment"]


def named(objects: list[Manifest], kind: str, name: str | None = None) -> list[Manifest]:
    """Return the objects of a kind, with a name or with any."""
    return [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
