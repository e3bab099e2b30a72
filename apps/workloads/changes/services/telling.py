"""Tells open pages and REST streams that a workload looks different. Names what changed, never content."""

from collections.abc import Iterable
from uuid import UUID

from django.utils import timezone

from apps.web.streams import events
from apps.workloads.models import Workload
from apps.workloads.specs import Phase

EVERYTHING = "head why story cost events replicas"
TENANT_PARTS = "rows needs mine balance quota who offers worst findings"
CONSOLE_PARTS = "needs use rows worst"
MOST_NEIGHBOURS = 50


def tell(row: Workload, *, parts: str) -> None:
    """After the commit: the workload's own page, lists that show it, and REST's event stream."""
    data = events.Fact(
        "workload.updated", timezone.now(), "workload",
        id=str(row.pk), tenant=row.tenant.slug, generation=row.generation, phase=row.phase,
    ).as_data()  # fmt: skip
    told = {
        f"workload:{row.pk}": parts,
        f"tenant:{row.tenant.slug}": TENANT_PARTS,
        f"user:{row.owner_id}": TENANT_PARTS,
        "console": CONSOLE_PARTS,
    }
    events.publish_parts(told, data=data)


def tell_costs(pks: Iterable[UUID]) -> None:
    """Only each workload's own page: cost grows by itself, and lists need not follow every few seconds."""
    events.publish_all([({f"workload:{pk}": "cost"}, {"type": "cost.updated", "id": str(pk)}) for pk in pks])


def tell_estimate(row: Workload) -> None:
    """Its own page: there is a new estimate of its start."""
    events.publish([f"workload:{row.pk}"], part="why", data={"type": "queue.moved", "id": str(row.pk)})


def tell_ide(row: Workload) -> None:
    """Its own page: its IDE says something new of its use."""
    data = events.Fact(
        "workload.updated", timezone.now(), "workload",
        id=str(row.pk), tenant=row.tenant.slug, generation=row.generation, phase=row.phase,
    ).as_data()  # fmt: skip
    events.publish([f"workload:{row.pk}"], part="head", data=data)


def tell_neighbours(row: Workload) -> None:
    """Those who wait for the same offer: place, holders and what is free have moved for them."""
    waiting = Workload.objects.filter(
        cluster=row.cluster_id, offer=row.offer_id, phase=Phase.PENDING, deleted_at=None
    )
    ids = waiting.exclude(pk=row.pk).order_by("created_at").values_list("pk", flat=True)[:MOST_NEIGHBOURS]
    topics = [f"workload:{pk}" for pk in ids]
    if topics:
        events.publish(topics, part="why", data={"type": "queue.moved"})
