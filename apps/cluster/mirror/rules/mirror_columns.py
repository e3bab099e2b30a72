"""What the mirror's columns say about one object as an API server sent it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.cluster.objects import names, queueing
from apps.cluster.objects.fields import owned_hash
from apps.cluster.objects.kinds import KINDS
from apps.cluster.specs import Body, ObjectRef


@dataclass(frozen=True)
class Sighting:
    """One object seen on a watch, in a list, or in the answer to an apply."""

    kind: str
    body: Body
    is_gone: bool = False

    @property
    def ref(self) -> ObjectRef:
        """Its reference; list items carry no kind, so the caller's is taken."""
        metadata = self.body["metadata"]
        return ObjectRef(self.kind, metadata.get("namespace", ""), metadata["name"])

    @property
    def resource_version(self) -> int:
        """As an integer: Kubernetes promises since 1.35 (KEP-5504) that versions of a kind compare as
        numbers.
        """
        return version_number(self.body["metadata"].get("resourceVersion", ""))


def version_number(text: str) -> int:
    """A resourceVersion as a number; 0 for none."""
    return int(text) if text.isascii() and text.isdigit() else 0


def columns(sighting: Sighting) -> dict[str, Any]:
    """The mirror's columns besides its key and the hashes of our own applies."""
    metadata = sighting.body["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    generation = (metadata.get("annotations") or {}).get(names.ANNOTATION_GENERATION, "")
    kept = KINDS[sighting.kind].keep(sighting.body)
    return {
        "uid": metadata.get("uid", ""),
        "resource_version": sighting.resource_version,
        "owner_kind": labels.get(names.LABEL_OWNER, ""),
        "owner_id": labels.get(names.LABEL_UID, ""),
        "controller_uid": parent_uid(sighting.kind, sighting.body),
        "generation": version_number(generation),
        "is_managed": labels.get(names.LABEL_MANAGED_BY) == names.MANAGER,
        "deleting": bool(metadata.get("deletionTimestamp")),
        "body": kept,
        "live_hash": owned_hash(sighting.body),
        "created_at": moment(metadata.get("creationTimestamp")),
        **_queueing(sighting.kind, kept),
    }


def _queueing(kind: str, kept: Body) -> dict[str, str]:
    if kind != "Workload":
        return {"queue_state": "", "queue_rank": "", "queue_asks": ""}
    return {
        "queue_state": queueing.state_of(kept),
        "queue_rank": queueing.rank_of(kept),
        "queue_asks": queueing.asks_of(kept),
    }


def parent_uid(kind: str, body: Mapping[str, Any]) -> str:
    """What an object belongs to: its controller, else its first owner; a Kueue Workload's job; an Event's
    object.
    """
    if kind == "Event":
        return str((body.get("involvedObject") or {}).get("uid", ""))
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences") or []
    owners = [owner for owner in owners if owner.get("controller")] or owners
    if owners:
        return str(owners[0].get("uid", ""))
    job = (metadata.get("labels") or {}).get(names.LABEL_JOB_UID, "") if kind == "Workload" else ""
    return str(job)


def moment(text: str | None) -> datetime | None:
    """A Kubernetes time (RFC 3339, with or without fractions) as an aware datetime; None for none."""
    return datetime.fromisoformat(text) if text else None
