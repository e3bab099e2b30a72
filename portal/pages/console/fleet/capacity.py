"""What the console shows to platform engineers and auditors; for everybody else it does not exist."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.urls import reverse

from apps.accounts.specs import Actor
from apps.cluster.mirror.rules import boards
from apps.cluster.mirror.rules.hardware import DeviceView, Holder, Taint
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster
from apps.cluster.watching.services.capabilities import NEEDED
from apps.errors import NotFound
from apps.metering.detector.gpu_models import SWITCHED_OFF, UNLISTED, board_of
from apps.quotas.budgets.selectors import spending
from apps.quotas.catalogue.selectors import stock
from apps.quotas.catalogue.selectors.offers import offers_for
from apps.quotas.catalogue.selectors.price_book import prices_at
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism, SharingMode
from apps.tenants.people.selectors import invitations
from apps.tenants.selectors import tenants_for
from apps.workloads.models import Workload
from apps.workloads.nodes.selectors import node_usage
from apps.workloads.selectors.reading import seldom, workloads_for
from apps.workloads.specs import Phase
from apps.workloads.waiting.selectors import waiting
from portal.pages.console.fleet import handover
from portal.pages.parts import figures, needs
from portal.pages.parts.needs import Need
from portal.pages.parts.pictures.charts import Block, letters
from portal.pages.team.workloads import workload_detail

PARTS = frozenset({"rows"})
FLEET_PARTS = frozenset({"needs", "use"})
TOPICS = ["console"]
RECENT = timedelta(days=1)
MOST_NEEDS = 20
_LOOKS = {
    Cluster.Phase.READY: ("circle-check", "good"),
    Cluster.Phase.SILENT: ("octagon-alert", "bad"),
    Cluster.Phase.UNKNOWN: ("circle-question-mark", "muted"),
}


@dataclass(frozen=True)
class NodeRow:
    """A node as the table shows it."""

    name: str
    state: str
    icon: str
    tone: str
    models: str
    devices: int
    held: int
    free: int


@dataclass(frozen=True)
class DeviceRow:
    """A device, its letter in the layout, who hold it, and what its driver says of it; `closed`: so that it
    takes no new work. A holder whose work was made elsewhere has no `name`; `memory_bytes` is its part of a
    device in shares.
    """

    name: str
    what: str
    memory_bytes: int
    held: bool
    holders: tuple[Mapping[str, Any], ...]
    letter: str = ""
    taints: tuple[Taint, ...] = ()
    closed: bool = False


def fleet(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """Supply of each offer, what waits, what needs a person; read where the template comes to it."""
    _only_console(actor)
    known = list(clusters.clusters_for(actor))
    supply = cache(lambda: _supply(actor, known, now))
    seen = cache(lambda: clusters.nodes_for(actor))
    return {
        "clusters": cache(lambda: [_with_look(cluster) for cluster in known]),
        "supply": supply,
        "total": cache(lambda: _total(seen(), supply())),
        "waiting": cache(lambda: workloads_for(actor).order_by().filter(phase=Phase.PENDING).count()),
        "needs": lambda: _needs(actor, known, seen(), now),
        "live_topics": TOPICS,
    }


def _with_look(cluster: Cluster) -> Cluster:
    cluster.icon, cluster.tone = _LOOKS[Cluster.Phase(cluster.phase)]  # type: ignore[attr-defined]
    cluster.capabilities = _capabilities(cluster)
    return cluster


def nodes(actor: Actor) -> dict[str, Any]:
    """Every node that has devices."""
    _only_console(actor)
    rows = [_node_row(shown) for shown in clusters.nodes_for(actor) if shown.devices]
    total = {
        "devices": sum(row.devices for row in rows),
        "free": sum(row.free for row in rows),
        "sick": sum(row.tone != "good" for row in rows),
    }
    return {"nodes": rows, "total": total, "live_topics": TOPICS}


HELD = "A backup was loaded: `manage.py restore review` says what it does not know, `restore finish` goes on."


def node(actor: Actor, name: str) -> dict[str, Any]:
    """One node's GPUs with their devices and holders."""
    _only_console(actor)
    found = next((shown for shown in clusters.nodes_for(actor) if shown.view.name == name), None)
    if found is None:
        raise NotFound
    holders = _holders(actor)
    own = [shown for shown in clusters.devices_for(actor) if shown.view.node == name]
    families: dict[str, list[clusters.ShownDevice]] = {}
    for shown in own:
        families.setdefault(shown.view.parent_uuid or shown.view.uuid or shown.view.name, []).append(shown)
    gpus = [_gpu(index, uuid, family, holders) for index, (uuid, family) in enumerate(families.items())]
    use = node_usage.uses_of([found])[found.uid]
    return {
        "node": _node_row(found),
        "gpus": gpus,
        "others": found.others,
        "use": use,
        "posture": handover.POSTURES[use.posture],
        "may_hand_over": actor.is_platform,
        "live_topics": TOPICS,
    }


def _capabilities(cluster: Cluster) -> list[dict[str, Any]]:
    """As detected; that Kueue is installed does not mean that it answers."""
    found = [dict(each) for each in cluster.capabilities]
    if waiting.is_kueue_silent(cluster):
        for each in found:
            if each.get("name") == "kueue":
                each |= {"available": False, "message": "Kueue does not answer: no pod can start."}
    return found


def _only_console(actor: Actor) -> None:
    if not actor.sees_everything:
        raise NotFound


def _supply(actor: Actor, known: Iterable[Cluster], now: datetime) -> list[dict[str, Any]]:
    offers: list[Offer] = list(offers_for(actor))
    prices = prices_at(offers, now)
    supplied = {pk: supply for cluster in known for pk, supply in stock.supply(cluster).items()}
    rows = ((offer, supplied.get(offer.pk, stock.NOTHING)) for offer in offers)
    return [
        {
            "offer": offer,
            "isolation": SharingMode(offer.sharing_mode).isolation,
            "hourly": prices.get(offer.pk),
            "one_node": found.one_node,
            **found.__dict__,
        }
        for offer, found in rows
    ]


def _total(nodes: Iterable[clusters.ShownNode], rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Of devices that are there side by side, and shares of device plugins. RULE: offers of one board that is
    cut on demand exclude each other, so they do not add up; cores are no devices.
    """
    plugins = [row for row in rows if row["offer"].mechanism == Mechanism.DEVICE_PLUGIN]
    return {
        "capacity": sum(each.count for each in nodes) + sum(row["capacity"] for row in plugins),
        "allocated": sum(each.held for each in nodes) + sum(row["allocated"] for row in plugins),
        "free": sum(each.free for each in nodes) + sum(row["free"] for row in plugins),
    }


def _needs(
    actor: Actor, known: Iterable[Cluster], nodes: Iterable[clusters.ShownNode], now: datetime
) -> list[Need]:
    silent = [
        Need(f"Cluster {each.name} is silent", each.message, "octagon-alert", "bad", since=each.silent_since)
        for each in known
        if each.phase == Cluster.Phase.SILENT
    ]
    held = [
        Need(f"Cluster {each.name} is held", HELD, "octagon-alert", "bad", since=each.held_since)
        for each in known
        if each.held_since is not None
    ]
    sick = [
        Need(f"Node {row.name}", row.state, row.icon, row.tone, reverse("console-node", args=[row.name]))
        for row in map(_node_row, nodes)
        if row.tone != "good" and row.devices
    ]
    failed = workloads_for(actor).filter(phase=Phase.FAILED, ended_at__gte=now - RECENT).order_by("-ended_at")
    broken = [
        Need(
            row.name,
            f"failed in {row.tenant.name}",
            "octagon-alert",
            "bad",
            workload_detail.url(row),
            row.ended_at,
        )
        for row in seldom(failed[:MOST_NEEDS])
    ]
    asked = needs.requests(spending.requests_for(actor), "not decided yet", reverse("console-requests"))
    people = needs.invitations(invitations.invitations_for(actor), reverse("console-requests"))
    asked = [*asked, *people, *_deletions(actor)]
    return [*silent, *held, *_kueue_needs(known), *_lacks(known), *sick, *asked, *broken]


def _deletions(actor: Actor) -> list[Need]:
    """Tenants that go once a second person agrees."""
    asked = tenants_for(actor).filter(deletion_asked_at__isnull=False, deletion_approved_by="")
    return [
        Need(
            f"Deletion of {row.name}",
            f"asked by {row.deletion_asked_by}, waits for a second person",
            "trash-2",
            "bad",
            reverse("console-tenant", args=[row.slug]),
            row.deletion_asked_at,
        )
        for row in asked.order_by("deletion_asked_at")
    ]


def _kueue_needs(known: Iterable[Cluster]) -> list[Need]:
    words = "No pod can start: its webhooks fail closed. See Kueue's own pods and logs."
    return [
        Need(f"Kueue of {each.name} does not answer", words, "octagon-alert", "bad")
        for each in known
        if waiting.is_kueue_silent(each)
    ]


def _lacks(known: Iterable[Cluster]) -> list[Need]:
    """What a cluster lacks though work needs it. A simulated one evaluates no policies."""
    return [
        Need(f"{each.name} lacks: {name}", lack.message, "octagon-alert", "bad", f"#cluster-{each.slug}")
        for each in known
        for name in (*sorted(NEEDED), *(() if each.is_simulated else ("policies",)))
        if (lack := clusters.lacks(each, name))
    ]


def _node_row(shown: clusters.ShownNode) -> NodeRow:
    state, icon, tone = ("Ready", "circle-check", "good")
    if not shown.view.ready:
        state, icon, tone = ("Not ready", "octagon-alert", "bad")
    elif not shown.view.schedulable:
        state, icon, tone = ("Cordoned", "circle-stop", "warn")
    models = ", ".join(sorted({device.model for device in shown.devices if device.model})) or "unknown"
    return NodeRow(shown.view.name, state, icon, tone, models, shown.count, shown.held, shown.free)


def _holders(actor: Actor) -> dict[tuple[str, str], Workload]:
    """Which workload a pod belongs to, by namespace and name."""
    live = workloads_for(actor).filter(phase__in=figures.RUNNING)
    return {(pod["namespace"], pod["pod"]): row for row in live for pod in row.placement}


def _gpu(
    index: int,
    uuid: str,
    family: list[clusters.ShownDevice],
    holders: Mapping[tuple[str, str], Workload],
) -> dict[str, Any]:
    placed = _layout(family)
    size = max((boards.memory_slices_of(shown.view) for shown in placed), default=8)
    keys = dict(zip((shown.view.key for shown in placed), letters(), strict=False))
    found = [_device_row(shown, holders, keys.get(shown.view.key, "")) for shown in family]
    rows = sorted(found, key=lambda row: (row.letter or "~", row.name))
    return {
        "name": f"GPU {index}",
        "model": family[0].view.model,
        "unlisted": SWITCHED_OFF if board_of(family[0].view.model) == UNLISTED else "",
        "uuid": uuid if uuid.startswith("GPU-") else "",
        "taken": [row for row in rows if row.held],
        "free": [row for row in rows if not row.held],
        "blocks": [_block(shown) for shown in placed],
        "slices": size,
        "words": _words(placed, size),
    }


def _layout(family: Iterable[clusters.ShownDevice]) -> list[clusters.ShownDevice]:
    """The instances that lie on the GPU: held ones, then free ones where nothing lies yet, by place.

    A driver that partitions on demand offers every possible place, so free instances may overlap.
    """
    taken: set[int] = set()
    placed = []
    for shown in sorted(family, key=lambda s: (not s.held, s.view.memory_slices)):
        slices = set(shown.view.memory_slices)
        if slices and not slices & taken:
            taken |= slices
            placed.append(shown)
    return sorted(placed, key=lambda s: s.view.memory_slices)


def _block(shown: clusters.ShownDevice) -> Block:
    view = shown.view
    start, size = view.memory_slices[0], len(view.memory_slices)
    return Block(view.profile, start, size, view.share_numerator, "held" if shown.held else "")


def _words(placed: list[clusters.ShownDevice], size: int) -> str:
    held = [shown.view for shown in placed if shown.held]
    compute = sum(view.share_numerator for view in held)
    whole = max((shown.view.share_denominator for shown in placed), default=7)
    memory = sum(len(view.memory_slices) for view in held)
    return f"In use: compute {compute} of {whole}, memory {memory} of {size} slices."


def _device_row(
    shown: clusters.ShownDevice, holders: Mapping[tuple[str, str], Workload], letter: str
) -> DeviceRow:
    view, who = shown.view, tuple(_holder(each, holders) for each in shown.holders)
    return DeviceRow(
        view.name, _what(view), view.memory_bytes, shown.held, who, letter, view.taints, view.tainted
    )


def _holder(holder: Holder, rows: Mapping[tuple[str, str], Workload]) -> dict[str, Any]:
    keys = ((holder.namespace, pod) for pod in holder.pods)
    row = next((rows[key] for key in keys if key in rows), None)
    known = {"name": row.name, "tenant": row.tenant.name, "url": workload_detail.url(row)} if row else {}
    return {**known, "memory_bytes": holder.memory_bytes}


def _what(view: DeviceView) -> str:
    if view.profile:
        return f"MIG slice {view.profile}"
    return "GPU in shares" if view.is_in_shares else "whole GPU"
