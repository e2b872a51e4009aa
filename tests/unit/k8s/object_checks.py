"""Checks of manifests as Kubernetes sees them: schemas, labels, selectors, images, security, resources."""

import re
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate

from foreword._version import __version__
from tests.unit.k8s.rendering import ROOT, Manifest, Workload, named, workloads
from tests.unit.k8s.settings_checks import settings_of

NAME, COMPONENT, VERSION = (f"app.kubernetes.io/{label}" for label in ("name", "component", "version"))
RESTRICTED = "pod-security.kubernetes.io/enforce"
OLDEST = "1.30"
"""The first release of Kubernetes where a preStop hook may sleep without more ado."""
RESOURCES = ("cpu", "memory", "ephemeral-storage")
SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UID = int(re.search(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)[1])
IMAGE_CACHE = Path(re.search(r"XDG_CACHE_HOME=(\S+)", DOCKERFILE)[1])
"""Where the image has services and libraries keep what they fetch, unless they are told otherwise."""


def quantity(text: str | int) -> float:
    """Return a Kubernetes quantity as a number."""
    number, suffix = re.fullmatch(r"([\d.]+)([A-Za-z]*)", str(text)).groups()
    return float(number) * SUFFIXES[suffix]


def schemas(objects: list[Manifest]) -> Iterator[str]:
    """Every object is of its kind's schema, with no field beside it, in the oldest and the newest release."""
    for found in objects:
        for version in (OLDEST, kubernetes_validate.latest_version()):
            try:
                kubernetes_validate.validate(found, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                yield f"{found['kind']} {found['metadata']['name']} in {version}: {error}"


def labels(objects: list[Manifest]) -> Iterator[str]:
    """Everything says what it belongs to, and of which release."""
    for found in (o for o in objects if o["kind"] != "Namespace"):
        given = found["metadata"].get("labels", {})
        if given.get(NAME) != "foreword" or given.get(VERSION) != __version__ or COMPONENT not in given:
            yield f"{found['kind']} {found['metadata']['name']}: labels {given}"


def selectors(objects: list[Manifest]) -> Iterator[str]:
    """What selects pods selects those of its own component and no others."""
    for workload in workloads(objects):
        spread = workload.pod.get("topologySpreadConstraints", [])
        if not spread:
            yield f"{workload.name}: no topologySpreadConstraints"
        of_deployment = [workload.deployment["spec"]["selector"], *(s.get("labelSelector", {}) for s in spread)]
        for selector in of_deployment:
            yield from _selects_only(selector.get("matchLabels", {}), workload.name, "its own selectors", objects)
        for kind in ("Service", "PodDisruptionBudget"):
            there = named(objects, kind, workload.name)
            if not there:
                yield f"{workload.name}: no {kind}"
            for found in there:
                selector = found["spec"]["selector"]
                chosen = selector if kind == "Service" else selector.get("matchLabels", {})
                yield from _selects_only(chosen, workload.name, kind, objects)


def _selects_only(selector: dict[str, str], name: str, who: str, objects: list[Manifest]) -> Iterator[str]:
    found = [w.name for w in workloads(objects) if selector.items() <= w.template["metadata"]["labels"].items()]
    if found != [name]:
        yield f"{name}: {who} select pods of {found}"


def budgets(objects: list[Manifest]) -> Iterator[str]:
    """An eviction takes one pod at a time, and is never blocked for good."""
    for found in named(objects, "PodDisruptionBudget"):
        if found["spec"].get("maxUnavailable") != 1:
            yield f"{found['metadata']['name']}: {found['spec']}"


def images(objects: list[Manifest]) -> Iterator[str]:
    """The image is the release's."""
    for workload in workloads(objects):
        if workload.container["image"] != f"foreword:{__version__}":
            yield f"{workload.name}: image {workload.container['image']}"


def headless(objects: list[Manifest]) -> Iterator[str]:
    """A Service resolves to pods: behind one address, a link would stay at the pod that it came to first."""
    for found in named(objects, "Service"):
        if found["spec"].get("clusterIP") != "None":
            yield f"{found['metadata']['name']}: has an address of its own"


def security(objects: list[Manifest]) -> Iterator[str]:
    """Pods are of the restricted profile, have no token of the cluster, and write to their volumes alone."""
    for namespace in named(objects, "Namespace"):
        if namespace["metadata"].get("labels", {}).get(RESTRICTED) != "restricted":
            yield f"namespace {namespace['metadata']['name']}: not enforced as restricted"
    for workload in workloads(objects):
        pod, container = workload.pod, workload.container
        wanted = {
            "automountServiceAccountToken": (pod, False),
            "enableServiceLinks": (pod, False),
            "runAsNonRoot": (pod.get("securityContext", {}), True),
            "runAsUser": (pod.get("securityContext", {}), UID),
            "fsGroup": (pod.get("securityContext", {}), UID),
            "seccompProfile": (pod.get("securityContext", {}), {"type": "RuntimeDefault"}),
            "allowPrivilegeEscalation": (container.get("securityContext", {}), False),
            "readOnlyRootFilesystem": (container.get("securityContext", {}), True),
            "capabilities": (container.get("securityContext", {}), {"drop": ["ALL"]}),
        }
        yield from (f"{workload.name}: {k} {w.get(k)}, wanted {v}" for k, (w, v) in wanted.items() if w.get(k) != v)
        forbidden = {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & pod.keys()
        forbidden |= {"privileged", "runAsUser", "runAsNonRoot"} & container.get("securityContext", {}).keys()
        kinds = {kind for volume in pod["volumes"] for kind in volume.keys() - {"name"}}
        forbidden |= kinds - {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "ephemeral", "projected"}
        yield from (f"{workload.name}: has {name}" for name in sorted(forbidden))


def writable(objects: list[Manifest]) -> Iterator[str]:
    """Beside a read-only root there is room for what is fetched, and for temporary files; all of it bounded."""
    for workload in workloads(objects):
        volumes = {volume["name"]: volume for volume in workload.pod["volumes"]}
        mounts = {Path(m["mountPath"]): volumes.get(m["name"], {}) for m in workload.container["volumeMounts"]}
        for path in (Path("/tmp"), IMAGE_CACHE, settings_of(workload).cache or IMAGE_CACHE):
            kinds = {kind for above in (path, *path.parents) for kind in mounts.get(above, {})}
            if not kinds & {"emptyDir", "persistentVolumeClaim"}:
                yield f"{workload.name}: cannot write to {path}"
        sizes = [v["emptyDir"].get("sizeLimit") for v in volumes.values() if "emptyDir" in v]
        most = quantity(_limits(workload).get("ephemeral-storage", 0))
        if None in sizes or sum(map(quantity, sizes)) > most:
            yield f"{workload.name}: volumes of {sizes}, ephemeral-storage {most:g}"


def resources(objects: list[Manifest]) -> Iterator[str]:
    """Requests and limits are there, in order, and the engine's threads leave a part of a core to gRPC."""
    for workload in workloads(objects):
        limits, requests = _limits(workload), workload.container.get("resources", {}).get("requests", {})
        for name in RESOURCES:
            if name not in limits or name not in requests:
                yield f"{workload.name}: no request or no limit of {name}"
            elif quantity(requests[name]) > quantity(limits[name]):
                yield f"{workload.name}: requests {requests[name]} of {name}, limit {limits[name]}"
        # Unset, libraries take a thread for every core of the node, and the limit stops them all again and again.
        threads, cores = settings_of(workload).threads, quantity(limits.get("cpu", 0))
        if workload.kind.has_engine and not 1 <= threads <= max(1, cores - 1):
            yield f"{workload.name}: {threads} threads, {cores:g} cores"


def _limits(workload: Workload) -> dict[str, str]:
    return workload.container.get("resources", {}).get("limits", {})
