"""What a stack is made of, and the command line of each of its services."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from foreword.errors import InvalidField
from foreword.models.dtype import Dtype
from foreword.models.source import ALLOWED, is_synthetic

DEFAULT_TARGET = "embedded"
BUNDLED = "bundled"
"""What the draft service calls the draft that comes with it."""
AUTO_DRAFT = "auto"
"""Takes what drafts best for the target: lookup and the bundled draft for the one that it is made for, else lookup."""
TARGET, ORCHESTRATOR = "target", "orchestrator"
MOST_GAMMA = 256
"""Candidates of the longest block that an orchestrator can be set to."""
USUAL_GAMMA_MAX = 16
"""Candidates of the longest block that all services take where they are not told."""

_COMMAND = (sys.executable, "-m", "foreword.cli.child", "serve")


@dataclass(frozen=True, slots=True)
class StackConfig:
    """A target, drafts and an orchestrator on loopback; drafts are trusted, since the stack starts them itself."""

    target: str = DEFAULT_TARGET
    """Model of the target."""
    draft: str | None = AUTO_DRAFT
    """`auto`, `lookup`, `mixed`, `mixed:MODEL`, `synthetic`, `synthetic:…` or a model; None starts no draft."""
    drafts: int = 1
    """How many draft services."""
    gamma: int | None = None
    """Default candidates per block; None is the orchestrator's default."""
    dtype: str = "float32"
    threads: int = 0
    """Threads of each engine; 0 leaves it to the libraries."""
    host: str = "127.0.0.1"
    port: int = 0
    """Port of the orchestrator; 0 takes a free one. The other services always take free ones."""
    http_port: int | None = None
    """Port of its HTTP API; 0 takes a free one, None serves no HTTP."""
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further flags for `target`, `draft` and `orchestrator`."""
    command: tuple[str, ...] = _COMMAND
    """What the name of a service and its flags are appended to."""
    start_timeout_s: float = 1800.0
    """Longest start of one service; the first one may fetch a model."""
    grace_s: float = 15.0
    """Time from SIGTERM to SIGKILL."""
    backoff_s: float = 0.5
    """Pause before the first restart; it doubles with every further one."""
    longest_backoff_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.target:
            raise InvalidField("target", self.target, ALLOWED)
        if self.draft == "":
            raise InvalidField("draft", "", "what drafts, such as lookup; --drafts 0 starts no draft")
        if self.dtype not in (known := [dtype.value for dtype in Dtype if dtype.exact]):
            raise InvalidField("dtype", self.dtype, f"one of {', '.join(known)}")
        if self.drafts < 0:
            raise InvalidField("drafts", self.drafts, "a whole number from 0")
        if self.gamma is not None and not 0 <= self.gamma <= MOST_GAMMA:
            raise InvalidField("gamma", self.gamma, f"a whole number from 0 to {MOST_GAMMA}")
        for name, port in (("port", self.port), ("http_port", self.http_port)):
            if port is not None and not 0 <= port <= 65535:
                raise InvalidField(name, port, "a port from 0 to 65535")
        for name in ("start_timeout_s", "grace_s", "backoff_s", "longest_backoff_s"):
            if not (math.isfinite(seconds := getattr(self, name)) and seconds >= 0.0):
                raise InvalidField(name, seconds, "a finite number of seconds from 0")
        if unknown := set(self.arguments) - {TARGET, "draft", ORCHESTRATOR}:
            raise InvalidField("arguments", sorted(unknown), "flags for target, draft and orchestrator")

    @property
    def drafter(self) -> str | None:
        """What drafts, with `auto` resolved."""
        if self.draft != AUTO_DRAFT:
            return self.draft
        return "mixed" if self.target == DEFAULT_TARGET else "lookup"

    @property
    def draft_model(self) -> str | None:
        """Model of the draft as it is named; None where it has none, or one that is no model of its own."""
        kind, _, model = (self.drafter or "").partition(":")
        if kind == "mixed":
            return model if model not in ("", BUNDLED) else None
        return None if self.drafter in (None, "lookup", BUNDLED) else self.drafter

    @property
    def draft_names(self) -> tuple[str, ...]:
        """Names of the draft services: `draft`, or `draft-1`, `draft-2`, …"""
        if self.draft is None or self.drafts == 0:
            return ()
        return ("draft",) if self.drafts == 1 else tuple(f"draft-{i}" for i in range(1, self.drafts + 1))


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """How one service is started; `listen` is put into the command line when it is."""

    name: str
    argv: tuple[str, ...]
    address_file: Path
    host: str
    port: int = 0


def plan_target(config: StackConfig, folder: Path) -> ServicePlan:
    """Return the plan of the target."""
    flags = ("--model", config.target, "--dtype", config.dtype, *_threads(config), *_gamma_max(config))
    return _plan(config, folder, name=TARGET, kind=TARGET, flags=flags)


def plan_drafts(config: StackConfig, folder: Path) -> list[ServicePlan]:
    """Return the plans of the drafts."""
    draft = config.drafter or ""
    kind, mark, model = draft.partition(":")
    if draft == "lookup":
        flags: tuple[str, ...] = ("--drafter", "lookup")
    elif kind == "mixed":
        flags = ("--drafter", "mixed", *(("--model", model) if mark else ()))
    elif is_synthetic(draft):
        flags = ("--drafter", "synthetic", "--model", draft)
    else:
        flags = ("--drafter", "model", "--model", draft)
    flags = (*flags, *_threads(config), *_gamma_max(config))
    return [_plan(config, folder, name=name, kind="draft", flags=flags) for name in config.draft_names]


def plan_orchestrator(config: StackConfig, folder: Path, *, target: str, drafts: list[str]) -> ServicePlan:
    """Return the plan of the orchestrator, which is told the addresses of the others."""
    flags: tuple[str, ...] = ("--targets", target, "--trust", "all")
    # A stack that is asked for no draft decodes plainly: the target does not draft with itself either.
    flags = (*flags, *(("--drafts", ",".join(drafts)) if drafts else ("--no-local-drafts",)))
    if config.gamma is not None:
        flags = (*flags, "--gamma", str(config.gamma), *_gamma_max(config))
    if config.http_port is not None:
        listen = f"{config.host}:{config.http_port}"
        flags = (*flags, "--http-listen", listen, "--http-address-file", str(http_address_file(folder)))
    return _plan(config, folder, name=ORCHESTRATOR, kind=ORCHESTRATOR, flags=flags, port=config.port)


def http_address_file(folder: Path) -> Path:
    """Return where the orchestrator of a stack writes the address of its HTTP API."""
    return folder / "orchestrator.http"


def _plan(
    config: StackConfig, folder: Path, *, name: str, kind: str, flags: tuple[str, ...], port: int = 0
) -> ServicePlan:
    address_file = folder / f"{name}.address"
    argv = (*config.command, kind, *flags, "--address-file", str(address_file), *config.arguments.get(kind, ()))
    return ServicePlan(name, argv, address_file, config.host, port)


def _threads(config: StackConfig) -> tuple[str, ...]:
    return ("--threads", str(config.threads)) if config.threads else ()


def _gamma_max(config: StackConfig) -> tuple[str, ...]:
    """Let every service take blocks as long as those that are asked for, where its default is shorter."""
    longer = config.gamma is not None and config.gamma > USUAL_GAMMA_MAX
    return ("--gamma-max", str(config.gamma)) if longer else ()
