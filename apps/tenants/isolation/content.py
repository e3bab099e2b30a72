"""What lies in a namespace that was there before, and whether it may become a tenant's. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from apps.cluster.objects import names
from apps.errors import FieldProblem
from apps.tenants.isolation import slugs

POINTER = "/namespace/name"
_SYSTEM = ("-system", "-operator")


@dataclass(frozen=True)
class Content:
    """What lies in a namespace now; `seen` is the fingerprint that shows that somebody has looked at it."""

    name: str
    objects: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, str]

    @property
    def seen(self) -> str:
        """The same for the same content, in any order."""
        plain = json.dumps([self.name, sorted((kind, sorted(those)) for kind, those in self.objects.items())])
        return hashlib.sha256(plain.encode()).hexdigest()[:16]

    @property
    def total(self) -> int:
        """How many objects."""
        return sum(len(those) for those in self.objects.values())


def problem_of(content: Content) -> FieldProblem | None:
    """Why this namespace cannot become a tenant's; None when it can."""
    name = content.name
    if slugs.RESERVED.fullmatch(name) or name.endswith(_SYSTEM):
        return FieldProblem(POINTER, "reserved_name", f"{name} belongs to the cluster or to an operator.")
    owner = content.labels.get(names.LABEL_TENANT)
    if owner:
        return FieldProblem(POINTER, "invalid_value", f"{name} is the namespace of the tenant {owner}.")
    return None
