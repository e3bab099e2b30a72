"""What somebody started with kubectl, and what is known of it."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.cluster.models import MirrorObject
from apps.quotas.models import Offer, Price
from tests.conftest import Cast
from tests.factories import make_offer
from tests.metering.books import AT
from tests.workloads import bodies

MODEL = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def whole(cast: Cast) -> Offer:
    """The same for every test here."""
    return whole_h100(cast)


def whole_h100(cast: Cast) -> Offer:
    """The offer of a whole H100 at 3.33 an hour."""
    flavor = cast.offer.flavor
    flavor.model, flavor.node_labels = MODEL, {}
    flavor.save()
    return priced(make_offer(flavor, "h100-whole", profile=""), "3.33")


def priced(offer: Offer, hourly: str) -> Offer:
    Price.objects.filter(offer=offer).update(valid_from=AT - timedelta(days=90), hourly=Decimal(hourly))
    return offer


def claimed(cast: Cast, *devices: str, uid: str = "r1") -> dict[str, Any]:
    """A claim in vision's namespace that a pod of nobody we know uses."""
    claim = bodies.claim(*devices)
    claim["metadata"] |= {
        "ownerReferences": [],
        "namespace": cast.vision.object_name,
        "uid": uid,
        "name": uid,
    }
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "made-by-hand", "uid": f"p-{uid}"}]
    return claim


def ends(uid: str = "r1") -> None:
    MirrorObject.objects.filter(kind="ResourceClaim", uid=uid).delete()
