"""What offers and flavors without a GPU are held to. Writes nothing."""

from collections.abc import Mapping
from typing import Any

from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.errors import Conflict, FieldProblem, Invalid
from apps.quotas.catalogue.rules import cores
from apps.quotas.catalogue.rules.drafts import FlavorDraft
from apps.quotas.models import Flavor
from apps.quotas.specs import CORE_MILLIS, CORES_PREFIX, GPU_NODE_LABELS, RESOURCE_PREFIX

BY_THE_CORE = "Its nodes have no GPU: it is sold by the core, and only the memory that comes with one varies."
MOST_NAMED = 5


def resource_name_of(flavor: Flavor, slug: str) -> str:
    """Under which name an offer of the flavor is asked for, or its cores are counted."""
    return f"{RESOURCE_PREFIX}{slug}" if flavor.model else f"{CORES_PREFIX}{flavor.object_name}"


def sizes(wish: Mapping[str, Any], found: Mapping[str, int]) -> dict[str, int]:
    """What one of it is: a core, with memory as asked, else as its nodes have it. Raises Invalid for what
    only a GPU has.
    """
    allowed = {"profile": "", "gpu_memory_bytes": None, "cpu_millis": CORE_MILLIS}
    problems = [
        FieldProblem(f"/spec/{_SHOWN.get(name, name)}", "invalid_value", BY_THE_CORE)
        for name, usual in allowed.items()
        if wish[name] not in (None, usual)
    ]
    memory = wish["memory_bytes"] if wish["memory_bytes"] is not None else found.get("memory_bytes")
    if memory is None:
        words = "No node of the flavor is there to read it from: fill in what comes with a core."
        problems.append(FieldProblem("/spec/memory", "required", words))
    elif memory <= 0:
        problems.append(FieldProblem("/spec/memory", "out_of_range", "It must be more than 0."))
    if problems:
        raise Invalid(problems)
    return {"gpu_memory_bytes": 0, "cpu_millis": CORE_MILLIS, "memory_bytes": memory or 0}


_SHOWN = {"gpu_memory_bytes": "gpu_memory", "cpu_millis": "cpu"}


def refusal_of(cluster: Cluster, draft: FlavorDraft) -> str:
    """Why adoption leaves a flavor that was found out; empty where it makes it."""
    try:
        refuse_mixing(Flavor(cluster=cluster, model=draft.model, node_labels=draft.node_labels))
    except Conflict as refused:
        return f"{refused.detail} {refused.hint}"
    return ""


def is_sold_by_hand(cluster: Cluster, draft: FlavorDraft) -> bool:
    """Whether these are cores, and a flavor that somebody made for some of their nodes sells them."""
    others = Flavor.objects.filter(cluster=cluster, model="", deleted_at=None)
    return not draft.model and others.exclude(node_labels=draft.node_labels).exists()


def refuse_mixing(flavor: Flavor) -> None:
    """Raises Conflict where Kueue or the scheduler could put work without a GPU on nodes with one, and for a
    second flavor of cores in a cluster: their pods could not be kept on their own nodes.
    """
    alive = Flavor.objects.filter(cluster=flavor.cluster, deleted_at=None).exclude(pk=flavor.pk)
    if flavor.model:
        bare = alive.filter(model="")
        mixed = [each.slug for each in bare if cores.may_land_on(each.node_labels, flavor.node_labels)]
    else:
        _refuse_second(flavor, alive.filter(model="").first())
        nodes, _ = cores.apart(inventory.devices(flavor.cluster), inventory.nodes(flavor.cluster))
        others = [(each.slug, each.node_labels) for each in alive.exclude(model="")]
        others += [(node.name, dict(node.labels)) for node in nodes]
        mixed = [name for name, labels in others if cores.may_land_on(flavor.node_labels, labels)]
    if mixed:
        raise Conflict(
            f"Work without a GPU could not be kept apart from {', '.join(sorted(mixed)[:MOST_NAMED])}.",
            hint=f"Give nodes with GPUs and their flavors the label {GPU_NODE_LABELS[0]} (as GPU feature "
            "discovery does), or the nodes without one a label that has another value on the others.",
        )


def _refuse_second(flavor: Flavor, other: Flavor | None) -> None:
    if other is not None:
        raise Conflict(
            f"{other.slug} sells the cores of {flavor.cluster.slug} already, "
            "and a cluster has one flavor of cores.",
            hint=f"Change {other.slug}, or delete it first.",
        )
    if cores.is_left_out(flavor.node_labels):
        raise Conflict(
            "Cores are sold of nodes that serve everybody and are not spot: work on them refuses the others.",
            hint="Leave the labels of the tenant and of spot capacity out.",
        )
