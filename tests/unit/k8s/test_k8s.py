"""The manifests of k8s/: what they promise, and planted faults that the checks must find."""

import copy
import re
import shutil

import pytest
import yaml

from foreword._version import __version__
from tests.unit.k8s import object_checks, settings_checks
from tests.unit.k8s.rendering import K8S, KUBECTL, ROOT, SERVICES, Workload, render, workloads

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="no kubectl here to render the manifests with")
BASES = sorted(path.name for path in (K8S / "base").iterdir())
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
KUSTOMIZATION = "kustomization.yaml"

OF_OBJECTS = [
    object_checks.schemas,
    object_checks.labels,
    object_checks.selectors,
    object_checks.budgets,
    object_checks.images,
    object_checks.headless,
    object_checks.security,
    object_checks.writable,
    object_checks.resources,
    settings_checks.names_exist,
    settings_checks.ports_agree,
    settings_checks.probes_ask_what_they_should,
    settings_checks.drains_in_time,
]
OF_DEPLOYMENTS = [settings_checks.listens_off_loopback, settings_checks.peers_exist]
"""What holds of an overlay and not of a base: a base listens nowhere yet, and knows one service alone."""


@pytest.fixture(scope="module")
def demo():
    return render(K8S / "overlays" / "cpu-demo")


@pytest.fixture(scope="module")
def rendered():
    folders = [K8S / "base" / name for name in BASES] + [K8S / "overlays" / name for name in OVERLAYS]
    return {folder.name: render(folder) for folder in folders}


def test_there_is_a_base_for_every_service():
    assert set(SERVICES) == set(BASES)


@needs_kubectl
@pytest.mark.parametrize("name", [*BASES, *OVERLAYS])
@pytest.mark.parametrize("check", OF_OBJECTS, ids=lambda check: check.__name__)
def test_holds_of_bases_and_overlays(rendered, name, check):
    assert list(check(rendered[name])) == []


@needs_kubectl
@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("check", OF_DEPLOYMENTS, ids=lambda check: check.__name__)
def test_holds_of_overlays(rendered, name, check):
    assert list(check(rendered[name])) == []


@needs_kubectl
@pytest.mark.parametrize("name", BASES)
def test_a_base_alone_does_not_listen_in_plaintext(rendered, name):
    assert list(settings_checks.listens_off_loopback(rendered[name])) == [f"foreword-{name}: neither TLS nor insecure"]


@needs_kubectl
def test_every_overlay_runs_all_services_in_a_namespace_of_its_own(rendered):
    for name in OVERLAYS:
        objects = rendered[name]
        assert {w.service for w in workloads(objects)} == set(SERVICES)
        (namespace,) = (o["metadata"]["name"] for o in objects if o["kind"] == "Namespace")
        assert {o["metadata"].get("namespace", namespace) for o in objects} == {namespace}


@pytest.mark.parametrize("path", sorted(K8S.rglob("*.yaml")), ids=lambda path: str(path.relative_to(K8S)))
def test_a_file_holds_one_thing_and_is_called_after_it(path):
    (content,) = yaml.safe_load_all(path.read_text())
    if path.name == KUSTOMIZATION:
        assert content["kind"] in ("Kustomization", "Component")
    elif path.stem in SERVICES:
        assert "kind" not in content  # settings
    else:
        component = content["metadata"]["name"].removeprefix("foreword-")
        first, _, kind = path.stem.rpartition("-")
        if kind == "patch":
            assert first.startswith(f"{component}-")
        else:
            assert (first.removeprefix("foreword-"), kind) == (component, content["kind"].lower())


@pytest.mark.parametrize("path", sorted(K8S.rglob(KUSTOMIZATION)), ids=lambda path: path.parent.name)
def test_every_file_is_used(path):
    content = yaml.safe_load(path.read_text())
    used = [
        *content.get("resources", ()),
        *(patch["path"] for patch in content.get("patches", ())),
        *(name for generator in content.get("configMapGenerator", ()) for name in generator["files"]),
    ]
    there = {found.name for found in path.parent.glob("*.yaml")} - {KUSTOMIZATION}
    assert {name for name in used if not name.startswith("..")} == there
    assert len(used) == len(set(used))


def test_the_page_names_this_release():
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert set(re.findall(r"foreword:(\d[\w.]*)", page)) == {__version__}


def test_the_release_is_named_in_one_place():
    assert [path.parent.name for path in K8S.rglob("*.yaml") if __version__ in path.read_text()] == ["release"]


# Planted faults: each is made in a copy of what was rendered, and one check has to say what is wrong.


def target(objects) -> Workload:
    return next(workload for workload in workloads(objects) if workload.service == "target")


def front(objects) -> Workload:
    return next(workload for workload in workloads(objects) if workload.service == "orchestrator")


def one(objects, kind, service="target"):
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"].startswith(f"foreword-{service}"))


def in_file(objects, old, new, *, service="target"):
    data, file = one(objects, "ConfigMap", service)["data"], f"{service}.yaml"
    assert old in data[file]
    data[file] = data[file].replace(old, new)


def in_front(objects, old, new):
    in_file(objects, old, new, service="orchestrator")


FAULTS = {
    "a field that the schema has not": (
        lambda o: target(o).pod.update(hostNetwrk=True),
        object_checks.schemas,
        "hostNetwrk",
    ),
    "a flag that is not there": (
        lambda o: target(o).container["args"].append("--gama=4"),
        settings_checks.names_exist,
        "no flag --gama",
    ),
    "a key that is not there": (
        lambda o: in_file(o, "dtype:", "dtipe:"),
        settings_checks.names_exist,
        "dtipe: got 'float32'",
    ),
    "a value that is not allowed": (
        lambda o: in_file(o, "float32\n", "float33\n"),
        settings_checks.names_exist,
        "one of float32, bfloat16, float16",
    ),
    "a model that is none": (
        lambda o: in_file(o, "model: embedded", "model: synthetic:vocab=1"),
        settings_checks.names_exist,
        "as vocab",
    ),
    "a variable that is not there": (
        lambda o: target(o).container["env"][0].update(name="FOREWORD_TARGET_ADVERTISED"),
        settings_checks.names_exist,
        "FOREWORD_TARGET_ADVERTISED",
    ),
    "plaintext that nobody asked for": (
        lambda o: in_file(o, "insecure: true", "insecure: false"),
        settings_checks.listens_off_loopback,
        "neither TLS nor insecure",
    ),
    "a loopback address": (
        lambda o: in_file(o, "0.0.0.0:", "127.0.0.1:"),
        settings_checks.listens_off_loopback,
        "only the pod reaches",
    ),
    "another port in the settings": (
        lambda o: in_file(o, ":50052", ":50055"),
        settings_checks.ports_agree,
        "settings listen on {'grpc': 50055}",
    ),
    "another port in a probe": (
        lambda o: target(o).container["readinessProbe"]["grpc"].update(port=50052),
        settings_checks.ports_agree,
        "readinessProbe does not ask port 50050",
    ),
    "another port in the Service": (
        lambda o: one(o, "Service")["spec"]["ports"][0].update(targetPort="http"),
        settings_checks.ports_agree,
        "Service port 50052 does not lead to 50052",
    ),
    "another port of HTTP in the settings": (
        lambda o: in_front(o, "0.0.0.0:8000", "0.0.0.0:8080"),
        settings_checks.ports_agree,
        "Service port 8000 does not lead to 8080",
    ),
    "HTTP that no Service leads to": (
        lambda o: one(o, "Service", "orchestrator")["spec"]["ports"].pop(),
        settings_checks.ports_agree,
        "Service has ['grpc'], wanted ['grpc', 'http']",
    ),
    "HTTP that nobody serves": (
        lambda o: in_front(o, "http:\n  listen: 0.0.0.0:8000\n", ""),
        settings_checks.ports_agree,
        "wanted ['grpc']",
    ),
    "readiness over plain HTTP where there are certificates": (
        lambda o: in_front(o, "insecure: true", "tls: {cert: c, key: k, ca: a, roles: {a: draft}}"),
        settings_checks.probes_ask_what_they_should,
        "'scheme': 'HTTPS'",
    ),
    "readiness of a path that is always there": (
        lambda o: front(o).container["readinessProbe"]["httpGet"].update(path="/version"),
        settings_checks.probes_ask_what_they_should,
        "wanted {'path': '/health'",
    ),
    "keys that nobody brings": (
        lambda o: in_front(o, "insecure: true", "tls: {cert: c, key: k, ca: a, roles: {a: draft}}"),
        settings_checks.names_exist,
        "without keys",
    ),
    "no Service where the orchestrator dials": (
        lambda o: o.remove(one(o, "Service")),
        settings_checks.peers_exist,
        "no target at foreword-target:50052",
    ),
    "readiness of a service that is not there": (
        lambda o: target(o).container["readinessProbe"]["grpc"].update(service="foreword.v1.Target"),
        settings_checks.probes_ask_what_they_should,
        "foreword.v1.Target'",
    ),
    "liveness that waits for weights": (
        lambda o: target(o).container["livenessProbe"]["grpc"].update(service="foreword.v1.TargetService"),
        settings_checks.probes_ask_what_they_should,
        "probes ask",
    ),
    "a start-up probe that gives up on weights": (
        lambda o: target(o).container["startupProbe"].update(failureThreshold=30),
        settings_checks.probes_ask_what_they_should,
        "startupProbe gives 150 s",
    ),
    "a rollout that fails while weights load": (
        lambda o: target(o).deployment["spec"].pop("progressDeadlineSeconds"),
        settings_checks.probes_ask_what_they_should,
        "the rollout's deadline",
    ),
    "an end before the drain's": (
        lambda o: target(o).pod.update(terminationGracePeriodSeconds=30),
        settings_checks.drains_in_time,
        "terminationGracePeriodSeconds 30, wanted 50",
    ),
    "a Deployment that selects other labels": (
        lambda o: target(o).deployment["spec"]["selector"]["matchLabels"].update(tier="x"),
        object_checks.selectors,
        "its own selectors select pods of []",
    ),
    "a Service that selects another component": (
        lambda o: one(o, "Service")["spec"]["selector"].update({object_checks.COMPONENT: "draft"}),
        object_checks.selectors,
        "Service select pods of ['foreword-draft']",
    ),
    "a budget for every pod": (
        lambda o: one(o, "PodDisruptionBudget")["spec"].update(selector={}),
        object_checks.selectors,
        "PodDisruptionBudget select pods of ['foreword-draft', 'foreword-orchestrator', 'foreword-target']",
    ),
    "a budget that blocks drains": (
        lambda o: one(o, "PodDisruptionBudget")["spec"].update(maxUnavailable=0),
        object_checks.budgets,
        "foreword-target",
    ),
    "an image that floats": (
        lambda o: target(o).container.update(image="foreword:latest"),
        object_checks.images,
        "foreword:latest",
    ),
    "labels of another release": (
        lambda o: one(o, "Service")["metadata"]["labels"].update({object_checks.VERSION: "0.0.1"}),
        object_checks.labels,
        "0.0.1",
    ),
    "a Service with an address": (
        lambda o: one(o, "Service")["spec"].pop("clusterIP"),
        object_checks.headless,
        "address of its own",
    ),
    "no limit of memory": (
        lambda o: target(o).container["resources"]["limits"].pop("memory"),
        object_checks.resources,
        "no limit of memory",
    ),
    "a request over its limit": (
        lambda o: target(o).container["resources"]["requests"].update(cpu="2500m"),
        object_checks.resources,
        "requests 2500m of cpu, limit 2",
    ),
    "a thread for every core of the node": (
        lambda o: in_file(o, "threads: 1\n", ""),
        object_checks.resources,
        "0 threads, 2 cores",
    ),
    "a cache on the read-only root": (
        lambda o: in_file(o, "threads: 1\n", "threads: 1\ncache: /opt/cache\n"),
        object_checks.writable,
        "cannot write to /opt/cache",
    ),
    "a volume without bounds": (
        lambda o: next(v for v in target(o).pod["volumes"] if v["name"] == "cache")["emptyDir"].clear(),
        object_checks.writable,
        "None",
    ),
    "a root that can be written": (
        lambda o: target(o).container["securityContext"].update(readOnlyRootFilesystem=False),
        object_checks.security,
        "readOnlyRootFilesystem False",
    ),
    "a capability": (
        lambda o: target(o).container["securityContext"]["capabilities"].update(add=["NET_ADMIN"]),
        object_checks.security,
        "NET_ADMIN",
    ),
    "a folder of the node": (
        lambda o: target(o).pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
        object_checks.security,
        "hostPath",
    ),
    "a token of the cluster": (
        lambda o: target(o).pod.pop("automountServiceAccountToken"),
        object_checks.security,
        "automountServiceAccountToken None",
    ),
    "a namespace that enforces nothing": (
        lambda o: o[0]["metadata"]["labels"].pop(object_checks.RESTRICTED),
        object_checks.security,
        "not enforced as restricted",
    ),
}


@needs_kubectl
@pytest.mark.parametrize("fault", FAULTS)
def test_finds_a_planted_fault(demo, fault):
    plant, check, wanted = FAULTS[fault]
    copied = copy.deepcopy(demo)
    plant(copied)
    found = list(check(copied))
    assert len(found) >= 1
    assert any(wanted in line for line in found), found


@needs_kubectl
def test_finds_faults_in_the_files_too(tmp_path):
    copied = shutil.copytree(K8S, tmp_path / "k8s")
    for file, old, new in (
        ("overlays/cpu-demo/draft.yaml", "drafter:", "draughter:"),
        ("base/draft/draft-poddisruptionbudget.yaml", "selector:\n    matchLabels: {}", "selector: {}"),
        ("components/release/kustomization.yaml", f"newTag: {__version__}", "newTag: nightly"),
    ):
        text = (copied / file).read_text()
        assert old in text
        (copied / file).write_text(text.replace(old, new))
    objects = render(copied / "overlays" / "cpu-demo")
    assert [line for line in settings_checks.names_exist(objects) if "draughter: got 'lookup'" in line]
    assert [line for line in object_checks.selectors(objects) if "foreword-draft: PodDisruptionBudget" in line]
    assert len(list(object_checks.images(objects))) == len(SERVICES)
