"""Base of a service's settings, and what all services have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from foreword.errors import InvalidField
from foreword.rpc.roles import Role
from foreword.rpc.tls import TlsFiles, check_files, check_listen, check_plaintext
from foreword.settings.checks import check_all
from foreword.settings.fields import Section, setting
from foreword.telemetry.logs import LogFormat, LogLevel


class Settings(BaseSettings):
    """Frozen settings of one program; a subclass sets `env_prefix` in its `model_config`.

    Constructing one takes what it is given and defaults only, so tests depend on nothing around them;
    `foreword.settings.load.load` brings flags, environment and file together.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        protected_namespaces=(),
    )

    def check_files(self) -> None:
        """Raise InvalidField or NotFound for a named file or folder that is not there, or is something else."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def _roles(value: object) -> object:
    """Read `name=role` pairs separated by commas; a name may come twice. Files give a mapping to a role or a list."""
    given = value
    if isinstance(value, str):
        pairs = [piece.strip().rpartition("=") for piece in value.split(",") if piece.strip()]
        gathered: dict[str, list[str]] = {}
        for name, _, role in pairs:
            gathered.setdefault(name.strip(), []).append(role.strip())
        value = gathered
    if not isinstance(value, Mapping):
        raise InvalidField("tls.roles", given, _ROLES_WANTED)
    try:
        return {name: _role_set(roles) for name, roles in value.items()}
    except (ValueError, TypeError) as error:
        raise InvalidField("tls.roles", given, _ROLES_WANTED) from error


def _role_set(roles: Any) -> frozenset[Role]:
    return frozenset(Role(name) for name in ([roles] if isinstance(roles, str | Role) else roles))


_ROLES_WANTED = "NAME=ROLE separated by commas, each role one of " + ", ".join(role.value for role in Role)


class TlsSettings(Section):
    """Mutual TLS; all three files or none."""

    cert: Path | None = setting(None, "Certificate chain of this process, PEM.")
    key: Path | None = setting(None, "Private key of the certificate, PEM.")
    ca: Path | None = setting(None, "Authority that signs the certificates of peers, PEM.")
    roles: Annotated[dict[str, frozenset[Role]], BeforeValidator(_roles)] = setting(
        {}, "Roles of peers by a name in their certificate; *.suffix matches one label more.", wanted=_ROLES_WANTED
    )

    def model_post_init(self, _: object) -> None:
        given = {name: value for name, value in (("cert", self.cert), ("key", self.key), ("ca", self.ca)) if value}
        if given and len(given) < 3:
            name, path = next(iter(given.items()))
            missing = " and ".join(f"tls.{name}" for name in ("cert", "key", "ca") if name not in given)
            raise InvalidField(f"tls.{name}", str(path), f"a file with {missing} beside it, or none of the three")
        if given and not self.roles:
            raise InvalidField("tls.roles", {}, "at least one name with a role, because TLS is on")

    @property
    def enabled(self) -> bool:
        """Whether the files are given."""
        return self.cert is not None

    @property
    def files(self) -> TlsFiles | None:
        """The three files, None without TLS."""
        if self.cert is None or self.key is None or self.ca is None:
            return None
        return TlsFiles(certificate=self.cert, key=self.key, authority=self.ca)


def check_address_file(field: str, path: Path | None) -> None:
    """Raise InvalidField for a file that no folder is there for."""
    if path is not None and not path.parent.is_dir():
        raise InvalidField(field, str(path), "a file in a folder that is there")


LONGEST_START_S = 600.0
"""How long an engine may take to start where nothing else is set."""


def start_timeout() -> float:
    """Declare how long an engine may take to start; services that have one call it in their settings."""
    return setting(
        LONGEST_START_S,
        "Longest start of the engine; fetching, converting and loading the model are part of it.",
        unit="s",
        least=1,
        most=86400,
    )


class LogSettings(Section):
    """What is logged, and how it looks."""

    level: LogLevel = setting(LogLevel.INFO, "Least severity that is shown.")
    format: LogFormat = setting(LogFormat.AUTO, "Form of the lines; auto is console on a terminal and JSON elsewhere.")


class ServerSettings(Settings):
    """What every service has.

    Raises InvalidField for an address to listen on that is none, and for plaintext off loopback unless `insecure`.
    """

    listen: str = setting(
        "127.0.0.1:0", "Address that the gRPC server binds; port 0 takes a free one.", wanted="host:port"
    )
    advertise: str = setting(
        "", "Address that peers reach this instance at; empty is the bound one.", wanted="host:port"
    )
    address_file: Path | None = setting(None, "File that gets the bound address once the service is ready.")
    insecure: bool = setting(False, "Allow plaintext off loopback: anyone who reaches the port has every role.")
    tls: TlsSettings = TlsSettings()
    health_listen: str = setting(
        "",
        "Address that serves health alone, in plaintext, for probes that know no TLS; empty serves none.",
        wanted="host:port",
    )
    reflection: bool = setting(False, "Serve gRPC reflection, for grpcurl and the like.")
    log: LogSettings = LogSettings()
    metrics_host: str = setting("127.0.0.1", "Address that metrics are served on; 0.0.0.0 lets others scrape them.")
    metrics_port: int | None = setting(
        None, "Port of Prometheus metrics over HTTP; none serves no metrics.", least=0, most=65535
    )
    threads: int = setting(
        0, "Threads of the engine's forward passes; 0 leaves it to the libraries.", least=0, most=1024
    )
    grace_s: float = setting(10.0, "Time that running calls get at shutdown.", unit="s", least=0, most=3600)

    def check_files(self) -> None:
        """Raise InvalidField for TLS files that do not fit, and for an address file without a folder to be in."""
        check_all(self._check_tls, lambda: check_address_file("address_file", self.address_file))

    def _check_tls(self) -> None:
        if (files := self.tls.files) is not None:
            check_files(files)

    @model_validator(mode="after")
    def _check_listening(self) -> Self:
        check_listen("listen", self.listen)
        if self.health_listen:
            check_listen("health_listen", self.health_listen)
        if not self.tls.enabled:
            check_plaintext(self.listen, insecure=self.insecure)
        return self
