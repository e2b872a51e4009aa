"""Checks of what manifests tell the services: flags, files, variables, addresses, times."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from foreword.errors import ForewordError
from foreword.models.source import parse_source
from foreword.rpc.tls import is_loopback
from foreword.settings.base import ServerSettings
from foreword.settings.fields import Leaf, leaves
from foreword.settings.load import load
from tests.unit.k8s.rendering import Manifest, Workload, named, workloads

POD_IP = "10.0.0.7"
ENDING_S = 5
"""What a service takes beside its grace times: last words, links, the engine."""


def known(workload: Workload) -> list[Leaf]:
    """Return the settings of the service that a Deployment runs."""
    kind = workload.kind.settings
    return list(leaves(kind, str(kind.model_config["env_prefix"])))


def settings_of(workload: Workload) -> ServerSettings:
    """Return the settings as the service would have them; raises ForewordError if it would not start.

    A base says nothing of TLS and would not start for that reason alone; here it is taken as if an overlay had.
    """
    variables = {leaf.variable: leaf.path for leaf in known(workload)}
    given = {variables[e["name"]]: e.get("value", POD_IP) for e in workload.container.get("env", ())}
    if not speaks_of_tls(workload):
        given["insecure",] = "true"
    with TemporaryDirectory() as folder:
        path = Path(folder, workload.config.name)
        path.write_text(workload.config_text())
        return load(workload.kind.settings, flags=given, config=path)


def speaks_of_tls(workload: Workload) -> bool:
    """Return whether the settings file brings TLS or does without it by name."""
    values = workload.config_values()
    return bool(values.get("tls") or values.get("insecure"))


def names_exist(objects: list[Manifest]) -> Iterator[str]:
    """Every flag, every key of a settings file and every variable is one that the service knows."""
    for workload in workloads(objects):
        flags = {"--config", *(leaf.flag for leaf in known(workload))}
        for word in workload.container["args"]:
            if word.startswith("--") and word.partition("=")[0] not in flags:
                yield f"{workload.name}: no flag {word}"
        variables = {leaf.variable for leaf in known(workload)}
        unknown = {e["name"] for e in workload.container.get("env", ())} - variables
        if unknown:
            yield f"{workload.name}: no variables {sorted(unknown)}"
            continue
        try:
            settings = settings_of(workload)
            if workload.service != "orchestrator" and (model := str(getattr(settings, "model", ""))):
                parse_source(model)
        except ForewordError as error:
            yield f"{workload.name}: {error.message}"


def listens_off_loopback(objects: list[Manifest]) -> Iterator[str]:
    """A pod is reached from elsewhere: TLS, or plaintext that is asked for, and no loopback address."""
    for workload in workloads(objects):
        settings = settings_of(workload)
        if is_loopback(settings.listen):
            yield f"{workload.name}: listens on {settings.listen}, which only the pod reaches"
        if not speaks_of_tls(workload):
            yield f"{workload.name}: neither TLS nor insecure"


def http_port(workload: Workload) -> dict[str, int]:
    """Return the port of HTTP by its name, nothing where the service has none."""
    listen = workload.config_values().get("http", {}).get("listen", "")
    return {"http": int(listen.rpartition(":")[2])} if listen else {}


def ports_agree(objects: list[Manifest]) -> Iterator[str]:
    """The settings' port is the container's, the probes', the Service's, and the one that the orchestrator dials."""
    for workload in workloads(objects):
        health, container = workload.port("health_listen"), workload.container
        wanted = {"grpc": workload.port(), **http_port(workload)}
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        if ports != {**wanted, "health": health}:
            yield f"{workload.name}: ports {ports}, settings listen on {wanted} and {health}"
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container.get(probe, {})
            over_http = "httpGet" in asked
            if not over_http and asked.get("grpc", {}).get("port") != health:  # with TLS the other refuses them
                yield f"{workload.name}: {probe} does not ask port {health}"
        for service in named(objects, "Service", workload.name):
            entries = {entry["name"]: entry for entry in service["spec"]["ports"]}
            if entries.keys() != wanted.keys():
                yield f"{workload.name}: Service has {sorted(entries)}, wanted {sorted(wanted)}"
            for name in entries.keys() & wanted.keys():
                entry, leads_to = entries[name], wanted[name]
                if ports.get(entry["targetPort"], entry["targetPort"]) != entry["port"] or entry["port"] != leads_to:
                    yield f"{workload.name}: Service port {entry['port']} does not lead to {leads_to}"


def peers_exist(objects: list[Manifest]) -> Iterator[str]:
    """What the orchestrator dials are Services of these objects, targets for targets and drafts for drafts."""
    there = {(w.service, f"{w.name}:{w.port()}") for w in workloads(objects) if named(objects, "Service", w.name)}
    for workload in workloads(objects):
        if workload.service == "orchestrator":
            values = workload.config_values()
            kinds = ("target", "draft")
            dialled = {(kind, a.removeprefix("dns:///")) for kind in kinds for a in values.get(f"{kind}s", ())}
            yield from (f"{workload.name}: no {kind} at {address}" for kind, address in sorted(dialled - there))


def plain_http(workload: Workload) -> bool:
    """Return whether HTTP comes without a certificate."""
    values = workload.config_values()
    http = values.get("http", {})
    return not (http.get("cert") or (values.get("tls") and not http.get("insecure")))


def probes_ask_what_they_should(objects: list[Manifest]) -> Iterator[str]:
    """Liveness is the process, readiness the service; the start-up probe lasts longer than an engine may load."""
    for workload in workloads(objects):
        container, ready = workload.container, workload.kind.health
        asked = {p: container.get(p, {}).get("grpc", {}).get("service") for p in ("livenessProbe", "readinessProbe")}
        if (over_http := container.get("readinessProbe", {}).get("httpGet")) is not None:
            wanted_get = {"path": "/health", "port": "http", **({} if plain_http(workload) else {"scheme": "HTTPS"})}
            if over_http != wanted_get or not http_port(workload):
                yield f"{workload.name}: readinessProbe gets {over_http}, wanted {wanted_get} of what serves HTTP"
            asked["readinessProbe"] = ready
        if asked != {"livenessProbe": "", "readinessProbe": ready}:
            yield f"{workload.name}: probes ask {asked}, wanted '' and {ready}"
        startup = container.get("startupProbe", {})
        # An orchestrator is ready when a target is, which must not count against it.
        wanted = ready if workload.kind.has_engine else ""
        if startup.get("grpc", {}).get("service") != wanted:
            yield f"{workload.name}: startupProbe asks {startup.get('grpc')}, wanted {wanted!r}"
        lasts_s = startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3)
        if workload.kind.has_engine and lasts_s <= settings_of(workload).start_timeout_s:
            yield f"{workload.name}: startupProbe gives {lasts_s} s, an engine may take longer"
        if workload.deployment["spec"].get("progressDeadlineSeconds", 600) <= lasts_s:
            yield f"{workload.name}: the rollout's deadline is shorter than the startupProbe's {lasts_s} s"


def drains_in_time(objects: list[Manifest]) -> Iterator[str]:
    """The kubelet waits for the pause, for draining and for the calls that run on, each up to the grace time."""
    for workload in workloads(objects):
        pause_s = workload.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if pause_s < 1:
            yield f"{workload.name}: no preStop pause"
        needed_s = pause_s + 2 * settings_of(workload).grace_s + ENDING_S
        if (given_s := workload.pod.get("terminationGracePeriodSeconds", 30)) < needed_s:
            yield f"{workload.name}: terminationGracePeriodSeconds {given_s}, wanted {needed_s:g}"
