"""Who may call what: roles by the names in a peer's certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from foreword.errors import Unauthorized


class Role(Enum):
    """What a peer is in the deployment."""

    CLIENT = "client"
    DRAFT = "draft"
    TARGET = "target"
    ORCHESTRATOR = "orchestrator"


ALL_ROLES = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Identity:
    """A peer as its certificate names it; without TLS it has no names."""

    names: tuple[str, ...]
    """Common name and subject alternative names."""
    roles: frozenset[Role]

    def __str__(self) -> str:
        return ", ".join(self.names) or "none"

    def require(self, allowed: frozenset[Role], what: str) -> None:
        """Raise Unauthorized unless the peer has one of the allowed roles; `what` names the thing asked for.

        To a peer without any role the thing does not matter: nothing is open to it.
        """
        if not self.roles:
            wanted = f"one that tls.roles of the server gives the {_listed(allowed)}"
            raise Unauthorized(f"certificate: got {self}, which has no role there, wanted {wanted}")
        if self.roles.isdisjoint(allowed):
            raise Unauthorized(f"{what}: got {self} with {_listed(self.roles)}, wanted {_listed(allowed)}")


@dataclass(frozen=True, slots=True)
class RolePolicy:
    """Roles of names, exact or `*.suffix` for one more label; `open` gives every role to everybody (no TLS)."""

    roles: Mapping[str, frozenset[Role]] = field(default_factory=dict)
    open: bool = False

    def identity(self, names: tuple[str, ...]) -> Identity:
        """Return the identity of a peer with these names."""
        if self.open:
            return Identity(names, ALL_ROLES)
        granted = (self.roles.get(pattern, frozenset()) for name in names for pattern in (name, _wildcard(name)))
        return Identity(names, frozenset().union(*granted))


def _wildcard(name: str) -> str:
    return "*." + name.partition(".")[2]


def _listed(roles: frozenset[Role]) -> str:
    return "role " + " or ".join(sorted(role.value for role in roles))
