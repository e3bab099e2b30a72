"""Users and groups as requests carry them."""

from __future__ import annotations

from dataclasses import dataclass, field

ADMIN_GROUP = "system:masters"


@dataclass(frozen=True)
class User:
    """Who asks. Group system:masters may do everything."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)

    def is_admin(self) -> bool:
        """Outside RBAC."""
        return ADMIN_GROUP in self.groups


SYSTEM = User("system:kube-controller-manager", (ADMIN_GROUP, "system:authenticated"))
