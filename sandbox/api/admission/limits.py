"""LimitRange defaults and ResourceQuota: what a namespace may hold.

Counting includes objects, requests and device classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from sandbox.api.admission.chain import Review
from sandbox.api.meta import errors, quantity
from sandbox.api.meta.objects import Obj, dig
from sandbox.api.validation.podspecs import containers_of

if TYPE_CHECKING:
    from sandbox.api.cluster.client import Client


Usage = dict[str, Decimal]
_QUOTAS = "resourcequotas"
_BARE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas")


class LimitRanger:
    """Fills in a container's requests and limits from the namespace's LimitRanges, and refuses what is over
    the maximum.
    """

    resources = frozenset({"pods"})

    def mutate(self, review: Review) -> None:
        """Defaults for containers."""
        if review.operation != "CREATE":
            return
        notes: list[str] = []
        for item in self._items(review, "Container"):
            for container in containers_of(review.obj["spec"]):
                resources = container.setdefault("resources", {})
                for field, source in (("requests", "defaultRequest"), ("limits", "default")):
                    missing = {
                        name: amount
                        for name, amount in sorted((item.get(source) or {}).items())
                        if name not in resources.get(field, {})
                    }
                    if missing:
                        resources[field] = {**resources.get(field, {}), **missing}
                        notes.append(f"{', '.join(missing)} {field[:-1]} for container {container['name']}")
        if notes:
            annotations = review.obj["metadata"].setdefault("annotations", {})
            annotations["kubernetes.io/limit-ranger"] = "LimitRanger plugin set: " + "; ".join(notes)

    def validate(self, review: Review) -> None:
        """Maximum and minimum of containers."""
        if review.operation != "CREATE":
            return
        problems = [
            text
            for item in self._items(review, "Container")
            for container in containers_of(review.obj["spec"])
            for text in _over(container, item)
        ]
        if problems:
            raise errors.forbidden(
                "pods", "", review.name, "[" + ", ".join(problems) + "]" if len(problems) > 1 else problems[0]
            )

    @staticmethod
    def _items(review: Review, kind: str) -> list[Obj]:
        ranges = review.client.list("limitranges", review.namespace)
        return [
            item
            for found in ranges
            for item in dig(found, "spec", "limits", default=[])
            if item["type"] == kind
        ]


def _over(container: Obj, item: Obj) -> list[str]:
    found = []
    limits, requests = (
        dig(container, "resources", "limits", default={}),
        dig(container, "resources", "requests", default={}),
    )
    for name, most in (item.get("max") or {}).items():
        if name not in limits:
            found.append(f"maximum {name} usage per Container is {most}.  No limit is specified")
        elif quantity.parse(str(limits[name])) > quantity.parse(most):
            found.append(f"maximum {name} usage per Container is {most}, but limit is {limits[name]}")
    for name, least in (item.get("min") or {}).items():
        if name in requests and quantity.parse(str(requests[name])) < quantity.parse(least):
            found.append(f"minimum {name} usage per Container is {least}, but request is {requests[name]}")
    return found


# -- usage ---------------------------------------------------------------------------------------------------


def _amounts(found: Mapping[str, str], prefix: str) -> Usage:
    usage: Usage = {}
    for name, amount in found.items():
        value = quantity.parse(str(amount))
        usage[f"{prefix}.{name}"] = value
        if prefix == "requests" and name in _BARE:
            usage[name] = value
    return usage


def _add(total: Usage, more: Usage) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Decimal(0)) + value


def pod_usage(pod: Obj) -> Usage:
    """What a living pod counts for: its containers' sums, or one init container where that is more."""
    if dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return {}
    spec, total, largest = pod["spec"], Usage(), Usage()
    for container in spec.get("containers") or ():
        _add(total, _amounts(dig(container, "resources", "requests", default={}), "requests"))
        _add(total, _amounts(dig(container, "resources", "limits", default={}), "limits"))
    for container in spec.get("initContainers") or ():
        own = _amounts(dig(container, "resources", "requests", default={}), "requests")
        largest = {
            name: max(own.get(name, Decimal(0)), largest.get(name, Decimal(0))) for name in {*own, *largest}
        }
    return {
        name: max(total.get(name, Decimal(0)), largest.get(name, Decimal(0))) for name in {*total, *largest}
    }


def claim_usage(claim: Obj, extended: Callable[[str], str]) -> Usage:
    """Devices by class; `firstAvailable` counts its dearest choice for each class, All counts 32."""
    total: Usage = defaultdict(Decimal)
    for request in dig(claim, "spec", "devices", "requests", default=[]):
        exact = request.get("exactly")
        choices = [exact] if exact else request.get("firstAvailable") or []
        worst: Usage = {}
        for choice in choices:
            count = Decimal(32) if choice.get("allocationMode") == "All" else Decimal(choice.get("count", 1))
            worst[choice["deviceClassName"]] = max(worst.get(choice["deviceClassName"], Decimal(0)), count)
        for name, count in worst.items():
            total[f"{name}.deviceclass.resource.k8s.io/devices"] += count
            total[f"requests.deviceclass.resource.kubernetes.io/{name}"] += count
            if extended(name):
                total[f"requests.{extended(name)}"] += count
    return dict(total)


def _volume_usage(claim: Obj) -> Usage:
    size = dig(claim, "spec", "resources", "requests", "storage")
    return {"requests.storage": quantity.parse(str(size))} if size else {}


def usage_of(resource: str, obj: Obj, client: Client) -> Usage:
    """Everything one object counts for."""
    plural, _, group = resource.partition(".")
    usage: Usage = {f"count/{resource}": Decimal(1)}
    if not group and plural in _COUNTED:
        alive = plural != "pods" or dig(obj, "status", "phase") not in ("Succeeded", "Failed")
        usage[plural] = Decimal(int(alive))
    if resource == "pods":
        usage |= pod_usage(obj)
    elif resource == "persistentvolumeclaims":
        usage |= _volume_usage(obj)
    elif resource == "resourceclaims.resource.k8s.io":

        def extended(name: str) -> str:
            found = client.get("deviceclasses.resource.k8s.io", name)
            return str(dig(found, "spec", "extendedResourceName", default=""))

        usage |= claim_usage(obj, extended)
    return usage


def _resources_for(name: str) -> tuple[str, ...]:
    """The resources whose objects can count for a quota entry."""
    if name.startswith("count/"):
        return (name.removeprefix("count/"),)
    if name in _COUNTED:
        return (name,)
    if name == "requests.storage":
        return ("persistentvolumeclaims",)
    return ("pods", "resourceclaims.resource.k8s.io")


def used(hard: Mapping[str, str], namespace: str, client: Client) -> dict[str, str]:
    """Current use of every entry of a quota, as canonical text."""
    total: Usage = {}
    for resource in sorted({resource for name in hard for resource in _resources_for(name)}):
        for obj in client.list(resource, namespace):
            _add(total, usage_of(resource, obj, client))
    return {name: show(total.get(name, Decimal(0)), str(hard[name])) for name in sorted(hard)}


def show(value: Decimal, like: str) -> str:
    """An amount in the style of its limit."""
    binary = like[-1:] == "i" and value == value.to_integral_value() and value % 1024 == 0
    return (
        quantity.canonical(f"{int(value) // 1024}Ki")
        if binary and value
        else quantity.canonical(f"{value.normalize():f}")
    )


class QuotaGuard:
    """Refuses what would go over a ResourceQuota of the namespace.

    Scoped quotas are left to the real server.
    """

    resources = frozenset({"*"})

    def mutate(self, review: Review) -> None:
        """Changes nothing."""

    def validate(self, review: Review) -> None:
        """403 "exceeded quota"."""
        if review.operation != "CREATE" or not review.namespace:
            return
        quotas = [
            quota
            for quota in review.client.list(_QUOTAS, review.namespace)
            if not dig(quota, "spec", "scopes")
        ]
        if not quotas:
            return
        asked = usage_of(review.resource, review.obj, review.client)
        for quota in quotas:
            self._check(review, quota, asked)

    @staticmethod
    def _check(review: Review, quota: Obj, asked: Usage) -> None:
        plural, _, group = review.resource.partition(".")
        hard = dig(quota, "spec", "hard", default={})
        why = _unsaid(review.obj, hard, asked) if review.resource == "pods" else ""
        if why:
            raise errors.forbidden(
                plural, group, review.name, f"failed quota: {quota['metadata']['name']}: {why}"
            )
        concerned = {name: str(hard[name]) for name in sorted(hard) if asked.get(name)}
        now = used(concerned, review.namespace, review.client)
        over = [
            name
            for name, most in concerned.items()
            if quantity.parse(now[name]) + asked[name] > quantity.parse(most)
        ]
        if over:
            requested = ",".join(f"{name}={show(asked[name], concerned[name])}" for name in over)
            have, limited = (",".join(f"{name}={table[name]}" for name in over) for table in (now, concerned))
            text = f"requested: {requested}, used: {have}, limited: {limited}"
            raise errors.forbidden(
                plural, group, review.name, f"exceeded quota: {quota['metadata']['name']}, {text}"
            )


def _unsaid(pod: Obj, hard: Mapping[str, str], asked: Usage) -> str:
    """A quota on cpu or memory makes every container state them."""
    bare = {*_BARE, *(f"requests.{name}" for name in _BARE), "limits.cpu", "limits.memory"}
    names = ",".join(item["name"] for item in pod["spec"]["containers"])
    missing = [f"{name} for: {names}" for name in sorted(hard) if name in bare and name not in asked]
    return f"must specify {'; '.join(missing)}" if missing else ""
