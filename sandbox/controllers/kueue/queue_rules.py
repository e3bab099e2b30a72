"""Kueue's validating webhook for ClusterQueues: what its schema cannot say about quotas.

Pure; the schema's own rules are checked before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.api.meta.errors import FieldError, invalid_value
from sandbox.api.meta.objects import Obj
from sandbox.api.meta.quantity import parse

NOT_NEGATIVE = "must be greater than or equal to 0"
LENT = "must be less than or equal to the nominalQuota"
ORDER = "must match the name in coveredResources"


def problems(queue: Obj) -> list[FieldError]:
    """No quantity is negative, none lends more than it has, resources follow coveredResources."""
    found: list[FieldError] = []
    for number, group in enumerate(queue["spec"].get("resourceGroups") or ()):
        covered = group["coveredResources"]
        for index, flavor in enumerate(group["flavors"]):
            path = f"spec.resourceGroups[{number}].flavors[{index}]"
            for position, quota in enumerate(flavor["resources"]):
                place = f"{path}.resources[{position}]"
                if quota["name"] != covered[position]:
                    found.append(invalid_value(f"{place}.name", quota["name"], ORDER))
                found += _quantities(quota, place)
    return found


def _quantities(quota: Obj, place: str) -> Iterator[FieldError]:
    limits = {
        key: str(quota[key]) for key in ("nominalQuota", "borrowingLimit", "lendingLimit") if key in quota
    }
    for key, text in limits.items():
        if parse(text) < 0:
            yield invalid_value(f"{place}.{key}", text, NOT_NEGATIVE)
    lent = limits.get("lendingLimit")
    if lent is not None and parse(lent) > parse(limits["nominalQuota"]):
        yield invalid_value(f"{place}.lendingLimit", lent, LENT)
