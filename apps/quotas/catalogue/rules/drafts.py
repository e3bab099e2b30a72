"""Flavors and offers to be, and what of a node tells them apart. Pure."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, count

from apps.cluster.mirror.rules.hardware import NodeView
from apps.cluster.objects import names
from apps.quotas.specs import Mechanism, SharingMode

PRODUCT_LABEL = "nvidia.com/gpu.product"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
SPOT = "spot"
GIB = 1024**3
LONGEST_NAME = 120
_OWN_TAINTS = re.compile(r"node(\.kubernetes|-role\.kubernetes)\.io/")


@dataclass(frozen=True)
class Naming:
    """What becomes a slug: a word, and the marks that tell it from others of that word (capacity, tenant,
    profile).
    """

    word: str
    marks: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """See `names.slug_of`: the word is what is cut."""
        return names.slug_of(self.word, *self.marks)

    def marked(self, *more: str) -> "Naming":
        """The same with more to tell it by."""
        return Naming(self.word, (*self.marks, *more))

    def free(self, is_taken: Callable[[str], bool]) -> "Naming":
        """The same, or the first with a number behind it whose slug nobody has."""
        numbered = (self.marked(str(number)) for number in count(2))
        return next(naming for naming in chain([self], numbered) if not is_taken(naming.slug))


def named(word: str, rest: str) -> str:
    """What people read: of both together the word is what is cut."""
    return f"{word[: LONGEST_NAME - len(rest)]}{rest}"


@dataclass(frozen=True)
class OfferDraft:
    """An offer to be. `hourly` is None where no list price is known: then somebody must set one."""

    naming: Naming
    name: str
    sharing_mode: SharingMode
    profile: str
    gpu_memory_bytes: int
    share_numerator: int
    share_denominator: int
    cpu_millis: int
    memory_bytes: int
    hourly: Decimal | None
    mechanism: Mechanism = Mechanism.DRA
    resource_name: str = ""
    """Empty: made of the slug."""

    @property
    def slug(self) -> str:
        """Its name in addresses, if nobody has that already."""
        return self.naming.slug


@dataclass(frozen=True)
class FlavorDraft:
    """A flavor to be, with the offers found on its nodes."""

    naming: Naming
    name: str
    model: str
    node_labels: dict[str, str]
    tolerations: tuple[dict[str, str], ...]
    offers: tuple[OfferDraft, ...]

    @property
    def slug(self) -> str:
        """Its name in addresses, if nobody has that already."""
        return self.naming.slug

    @property
    def tenant(self) -> str:
        """The tenant whose nodes these are; empty for everybody's."""
        return self.node_labels.get(names.LABEL_TENANT, "")


def telling_labels(node: NodeView, *more: str) -> tuple[tuple[str, str], ...]:
    """The labels by which nodes are of different flavors: GPU, capacity type and tenant, and `more`."""
    keys = (CAPACITY_LABEL, PRODUCT_LABEL, names.LABEL_TENANT, *more)
    return tuple((key, node.labels[key]) for key in keys if key in node.labels)


def tolerations_of(nodes: Iterable[NodeView]) -> tuple[dict[str, str], ...]:
    """What work must tolerate to run on these nodes."""
    # Taints of the node's own life (not ready, cordoned, control plane) are not for work to tolerate.
    found = {
        (taint["key"], taint.get("value", ""), taint["effect"])
        for node in nodes
        for taint in node.taints
        if taint["effect"] in ("NoSchedule", "NoExecute") and not _OWN_TAINTS.match(taint["key"])
    }
    return tuple(
        {"key": key, "operator": "Equal", "value": value, "effect": effect}
        for key, value, effect in sorted(found)
    )
