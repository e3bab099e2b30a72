"""Deletion: preconditions, grace, propagation and finalizers. Dependents are the garbage collector's work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sandbox.api.admission import chain
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, copy_of, name_of, namespace_of, timestamp
from sandbox.api.schema import shaping
from sandbox.api.storage.store import Place
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.registry.generic import Options, Registry

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
# Stores of the real server that answer a DELETE with the object instead of a Status.
_RETURNED = frozenset({"pods", "services", "persistentvolumeclaims", "resourcequotas", "serviceaccounts"})
_FOREVER = frozenset({"default", "kube-system", "kube-public"})
# A definition waits until its objects are gone.
_DEFINITIONS, _CLEANUP = (
    "customresourcedefinitions.apiextensions.k8s.io",
    "customresourcecleanup.apiextensions.k8s.io",
)
_PROPAGATIONS = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True)
class Deletion:
    """What a DELETE asks for."""

    propagation: str = ""
    grace: int | None = None
    uid: str = ""
    version: str = ""

    @classmethod
    def parse(cls, body: Obj, query: dict[str, str]) -> Deletion:
        """DeleteOptions from a body, else from the query."""
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        policy = str(body.get("propagationPolicy") or query.get("propagationPolicy") or "")
        if policy and policy not in _PROPAGATIONS:
            problem = errors.unsupported("propagationPolicy", policy, (*_PROPAGATIONS, "nil"))
            raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [problem])
        if "orphanDependents" in body and not policy:
            policy = "Orphan" if body["orphanDependents"] else "Background"
        wanted = body.get("preconditions") or {}
        return cls(
            policy,
            None if grace is None else int(grace),
            str(wanted.get("uid", "")),
            str(wanted.get("resourceVersion", "")),
        )


def finished(kind: Kind, obj: Obj) -> bool:
    """Whether an object under deletion has nothing left to wait for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if _holds(kind, obj):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _check(kind: Kind, obj: Obj, asked: Deletion) -> None:
    metadata = obj["metadata"]
    for label, wanted, have in (
        ("UID", asked.uid, metadata["uid"]),
        ("ResourceVersion", asked.version, metadata["resourceVersion"]),
    ):
        if wanted and wanted != have:
            fate = "deleted and then recreated" if label == "UID" else "modified"
            why = (
                f"the {label} in the precondition ({wanted}) does not match the {label} in record ({have}). "
                f"The object might have been {fate}"
            )
            raise errors.conflict(kind.kind, kind.group, name_of(obj), why)


def _grace(kind: Kind, obj: Obj, asked: Deletion) -> int:
    """Seconds a pod may take to end: none where no node runs it."""
    phase = obj.get("status", {}).get("phase")
    if kind.key != "pods" or not obj.get("spec", {}).get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    usual = int(obj["spec"].get("terminationGracePeriodSeconds", 30))
    wanted = usual if asked.grace is None else asked.grace
    already = obj["metadata"].get("deletionGracePeriodSeconds")
    return wanted if already is None else min(wanted, int(already))


def _finalizers(kind: Kind, obj: Obj, asked: Deletion) -> list[str]:
    policy = asked.propagation or ("Orphan" if kind.key == "jobs.batch" else "")
    kept = [
        name
        for name in obj["metadata"].get("finalizers") or ()
        if not policy or name not in (FOREGROUND, ORPHAN)
    ]
    if kind.key == _DEFINITIONS and _CLEANUP not in kept:
        kept.append(_CLEANUP)
    return kept + {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])


def delete(
    registry: Registry, kind: Kind, place: Place, *, asked: Deletion, options: Options
) -> tuple[Obj, bool]:
    """Delete or mark for deletion: what to answer, and whether it is gone."""
    old = registry.entry(kind, *place).obj
    if kind.key == "namespaces" and place.name in _FOREVER:
        raise errors.forbidden(kind.plural, kind.group, place.name, "this namespace may not be deleted")
    _check(kind, old, asked)
    chain.validate(registry.hooks, registry.review(kind, old, old, options=options, operation="DELETE"))
    new = copy_of(old)
    metadata, grace = new["metadata"], _grace(kind, old, asked)
    finalizers = _finalizers(kind, old, asked)
    if kind.key == "jobs.batch" and not asked.propagation:
        options.warnings.append(
            "child pods are preserved by default when jobs are deleted; set "
            "propagationPolicy=Background to remove them "
            "or set propagationPolicy=Orphan to suppress this warning"
        )
    if not (finalizers or grace > 0 or _holds(kind, old)):
        last = old if options.dry_run else registry.store.remove(kind.key, place) or old
        return (last if kind.key in _RETURNED else success(kind, old)), True
    _mark(kind, metadata, grace, registry.cluster.clock.now())
    if finalizers:
        metadata["finalizers"] = finalizers
    if kind.key == "namespaces":
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    shaping.fill(new, kind.schema)
    if not options.dry_run and new != old:
        new = registry.store.put(kind.key, new).obj
    return new, False


def _holds(kind: Kind, obj: Obj) -> bool:
    """Namespaces are held by their spec."""
    return kind.key == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))


def _mark(kind: Kind, metadata: Obj, grace: int, now: datetime) -> None:
    """Set the end; a second deletion may only bring it nearer."""
    already, before = metadata.get("deletionTimestamp"), int(metadata.get("deletionGracePeriodSeconds") or 0)
    if kind.key != "namespaces":
        metadata["deletionGracePeriodSeconds"] = grace
    if not already or grace < before:
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    if not already and "generation" in metadata:
        metadata["generation"] += 1


def success(kind: Kind, obj: Obj) -> Obj:
    """The Status that tells of a deletion."""
    details = {
        "name": name_of(obj),
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
        "uid": obj["metadata"]["uid"],
    }
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def place_of(obj: Obj) -> Place:
    """Where an object lives."""
    return Place(namespace_of(obj), name_of(obj))
