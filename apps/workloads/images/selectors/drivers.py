"""Which CUDA the drivers behind each offer serve, and what that means for an image. Reads the mirror only."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from apps.cluster.mirror.rules.hardware import NodeView
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.selectors import offers, stock
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism
from apps.tenants.models import Tenant
from apps.workloads.images.rules import cuda
from apps.workloads.images.selectors import catalogue
from apps.workloads.specs import WorkloadSpec

_LABELS = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime-version.minor")
_OLD_LABELS = ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor")
"""GPU feature discovery: the newest CUDA that a node's driver serves."""


def served(cluster: Cluster) -> dict[UUID, cuda.Version | None]:
    """The newest CUDA that every device of an offer serves, by the offer's id; None where one of them does
    not say, or there is none.
    """
    devices, nodes = stock.devices_by_offer(cluster), inventory.nodes(cluster)
    found = {}
    for offer in offers.offers_in(cluster.pk):
        if offer.mechanism == Mechanism.DEVICE_PLUGIN:
            told = [_of_node(node) for node in nodes if stock.carries(node, offer)]
        else:
            told = [cuda.version(device.cuda_version) for device in devices[offer.pk]]
        found[offer.pk] = _least(told)
    return found


def warnings(tenant: Tenant, spec: WorkloadSpec, offer: Offer, *, now: datetime) -> list[str]:
    """What is to be said of the image's CUDA on this offer before it is asked for, with the offers that fit.

    Only the catalogue tells an image's CUDA: of any other nothing is said.
    """
    image = catalogue.entry_of(tenant, spec.image)
    wanted = cuda.version(image.cuda_version) if image else None
    if image is None or wanted is None:
        return []
    drivers = served(tenant.cluster)
    sentence = cuda.sentence(image.name, wanted, offer.name, drivers.get(offer.pk))
    if not sentence:
        return []
    choices = standing.offer_choices(tenant, now=now)
    allowed = [choice.offer for choice in choices if choice.allowed]
    fits = ", ".join(each.name for each in allowed if cuda.serves(drivers.get(each.pk), wanted))
    older = "No offer of the team fits: take an image of an older CUDA."
    return [f"{sentence} {f'It fits {fits}.' if fits else older}"]


def _least(told: Iterable[cuda.Version | None]) -> cuda.Version | None:
    known = list(told)
    return min((each for each in known if each is not None), default=None) if all(known) else None


def _of_node(node: NodeView) -> cuda.Version | None:
    for labels in (_LABELS, _OLD_LABELS):
        if labels[0] in node.labels:
            return cuda.version(".".join(node.labels.get(label, "0") for label in labels))
    return None
