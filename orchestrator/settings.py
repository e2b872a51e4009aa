"""Settings of an orchestrator."""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import SettingsConfigDict

from foreword.errors import InvalidField
from foreword.rpc.tls import is_loopback
from foreword.settings.base import ServerSettings
from foreword.settings.checks import check_all
from foreword.settings.fields import CommaList, setting
from orchestrator.http.settings import HttpSettings
from orchestrator.pools.drafts import Trust
from orchestrator.pools.names import SCHEME

_PLACES = "host:port or dns:///name:port, separated by commas"


class OrchestratorSettings(ServerSettings):
    """Settings of `foreword serve orchestrator`."""

    model_config = SettingsConfigDict(env_prefix="FOREWORD_ORCHESTRATOR_")

    targets: CommaList = setting(
        (), "Targets; all serve one model. A dns:/// name stands for every address that it resolves to.", wanted=_PLACES
    )
    drafts: CommaList = setting(
        (), "Drafts; none decodes plainly. A dns:/// name stands for every address that it resolves to.", wanted=_PLACES
    )
    resolve_s: float = setting(5.0, "Time between look-ups of a dns:/// name.", unit="s", least=0.1, most=3_600)
    route_by_prefix: bool = setting(
        default=True,
        description="Prefer the target that was lately sent the same beginning, where loads differ little.",
    )
    reopens_at_once: int = setting(
        16, "Sessions that may re-open at the same time after their target is lost.", unit="sessions", least=1
    )
    trust: CommaList = setting(
        ("none",),
        "Drafts that are believed when they say what they drew from, which the rules token and block need.",
        wanted="all, none, or entries of drafts separated by commas",
    )
    model: str = setting(
        "", "Where the tokenizer comes from: a folder, a hub id, embedded, synthetic:…; empty asks the target."
    )
    cache: Path | None = setting(None, "Folder for fetched models; none takes the user's cache folder.")
    gamma: int | None = setting(
        None,
        "Candidates per block where a request does not say; none takes what is best as far as is measured.",
        unit="candidates",
        least=0,
        most=256,
    )
    gamma_min: int = setting(
        0, "Fewest candidates that are chosen where a request does not say.", unit="candidates", least=0, most=256
    )
    gamma_max: int = setting(
        16, "Most candidates that are chosen, or that a request may ask for.", unit="candidates", least=0, most=256
    )
    stop_rule: bool = setting(
        True, "Whether blocks end where a further candidate is expected to cost more time than it brings tokens."
    )
    alternatives: int = setting(
        8,
        "Most blocks that a far draft may send for a round before the verdict on the one before.",
        unit="blocks",
        least=0,
        most=32,
    )
    local_drafts: bool = setting(
        default=True,
        description="While a session has no draft that writes, let its target draft with itself, if it can.",
    )
    default_max_tokens: int = setting(1024, "Most output tokens where a request does not say.", unit="tokens", least=1)
    max_requests: int = setting(256, "Most requests at work; more are refused for now.", unit="requests", least=1)
    max_choices: int = setting(16, "Most continuations of one request.", unit="choices", least=1, most=128)
    client_buffer: int = setting(
        512, "Output tokens that wait for a slow client before its sessions pause.", unit="tokens", least=1
    )
    client_patience_s: float = setting(
        60.0, "Time that a client may stop reading before its request ends.", unit="s", over=0, most=86_400
    )
    target_patience_s: float = setting(
        120.0, "Time that a session looks for a target, from its last token on.", unit="s", over=0, most=3_600
    )
    round_limit_s: float = setting(
        30.0, "Time without an answer after which a target counts as stuck.", unit="s", over=0, most=3_600
    )
    open_limit_s: float = setting(
        300.0, "Time for reading a prompt after which a target counts as stuck.", unit="s", over=0, most=86_400
    )
    wait_min_ms: float = setting(
        5.0, "Shortest time that a target is asked to wait for a block.", unit="ms", least=0, most=60_000
    )
    wait_max_ms: float = setting(
        1_000.0, "Longest such time, also the one before block lags are known.", unit="ms", least=0, most=60_000
    )
    report_s: float = setting(
        10.0, "Time between lines in the log that tell what was decoded; 0 writes none.", unit="s", least=0, most=86_400
    )
    http: HttpSettings = HttpSettings()

    def model_post_init(self, _: object) -> None:
        plaintext = not (self.tls.enabled or self.insecure)
        check_all(
            self._check_gamma,
            self._check_waits,
            lambda: _check_targets(self.targets, plaintext=plaintext),
            lambda: _check_addresses("drafts", self.drafts, plaintext=plaintext),
            self._check_trust,
            lambda: self.http.check_exposure(tls=self.tls.enabled, insecure=self.insecure),
        )

    def check_files(self) -> None:
        check_all(super().check_files, self.http.check_files)

    def _check_gamma(self) -> None:
        if self.gamma is not None and self.gamma > self.gamma_max:
            raise InvalidField("gamma", self.gamma, f"at most gamma_max, {self.gamma_max}")
        if self.gamma_min > self.gamma_max:
            raise InvalidField("gamma_min", self.gamma_min, f"at most gamma_max, {self.gamma_max}")
        if self.gamma is not None and self.gamma < self.gamma_min:
            raise InvalidField("gamma", self.gamma, f"at least gamma_min, {self.gamma_min}")

    def _check_waits(self) -> None:
        if self.wait_min_ms > self.wait_max_ms:
            raise InvalidField("wait_min_ms", self.wait_min_ms, f"at most wait_max_ms, {self.wait_max_ms:g}")

    def _check_trust(self) -> None:
        words = {"all", "none"} & set(self.trust)
        if not self.trust or (words and len(self.trust) > 1):
            raise InvalidField("trust", ",".join(self.trust), "all, none, or entries of drafts")
        strangers = set() if words else set(self.trust) - set(self.drafts)
        if strangers:
            raise InvalidField("trust", min(strangers), f"one of the drafts: {', '.join(self.drafts) or 'none given'}")

    def trusted(self) -> Trust:
        """Return which drafts are trusted."""
        if self.trust == ("all",):
            return Trust(everyone=True)
        return Trust(sources=frozenset(self.trust) - {"none"})


def _check_targets(targets: tuple[str, ...], *, plaintext: bool) -> None:
    if not targets:
        raise InvalidField("targets", "", "at least one address of a target")
    _check_addresses("targets", targets, plaintext=plaintext)


def _check_addresses(field: str, addresses: tuple[str, ...], *, plaintext: bool) -> None:
    if len(set(addresses)) != len(addresses):
        raise InvalidField(field, ",".join(addresses), "each address once")
    for address in addresses:
        host, _, port = address.removeprefix(SCHEME).rpartition(":")
        is_port = port.isascii() and port.isdigit() and 1 <= int(port) <= 65535
        if not address.startswith("unix:") and not (host and "/" not in host and is_port):
            raise InvalidField(field, address, "host:port or dns:///name:port, the port from 1 to 65535")
        if plaintext and not is_loopback(address):
            raise InvalidField(field, address, "an address of this machine without TLS; give --tls-cert, or --insecure")
