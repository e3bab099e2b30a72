"""Example specs of quota, with fixed ids so that whole manifests can be compared."""

from apps.quotas.specs import FlavorSpec, OfferQuota, OfferSpec, QueueSpec
from apps.tenants.specs import Suspend

GIB = 1024**3
H100 = "NVIDIA H100 80GB HBM3"

FLAVOR = FlavorSpec(
    id="7a54f2a6-6bb2-4f0e-9d5e-1d5f30a8a001",
    object_name="h100-aaaaaaaaaa",
    generation=1,
    node_labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    tolerations=({"key": "gpu", "operator": "Equal", "value": "h100", "effect": "NoSchedule"},),
)
SLICE = OfferSpec(
    id="7a54f2a6-6bb2-4f0e-9d5e-1d5f30a8a002",
    object_name="h100-1g-10gb-bbbbbbbbbb",
    resource_name="allotment.dev/h100-1g-10gb",
    generation=1,
    model=H100,
    profile="1g.10gb",
)
WHOLE = OfferSpec(
    id="7a54f2a6-6bb2-4f0e-9d5e-1d5f30a8a003",
    object_name="h100-whole-cccccccccc",
    resource_name="allotment.dev/h100-whole",
    generation=3,
    model=H100,
    profile="",
)


def quota(
    offer: str = "h100-1g-10gb",
    *,
    nominal: int = 4,
    borrow: int | None = 4,
    lend: int | None = None,
    flavor: str = "h100-aaaaaaaaaa",
    total: int = 0,
    closed: bool = False,
) -> OfferQuota:
    return OfferQuota(
        offer=offer,
        resource_name=f"allotment.dev/{offer}",
        flavor=flavor,
        nominal=nominal,
        borrowing_limit=borrow,
        lending_limit=lend,
        cpu_millis=3500,
        memory_bytes=36 * GIB,
        cohort_total=total,
        closed=closed,
    )


def cores(
    *, nominal: int = 64, borrow: int | None = 32, lend: int | None = 16, closed: bool = False
) -> OfferQuota:
    """Of cores with 4 GiB each."""
    flavor = "cpu-eeeeeeeeee"
    return OfferQuota(
        "cpu-cores", f"cpu/{flavor}", flavor, nominal, borrow, lend, cpu_millis=1000,
        memory_bytes=4 * GIB, closed=closed, is_cores=True,
    )  # fmt: skip


def queue(*quotas: OfferQuota, suspend: Suspend = Suspend.NONE, namespace_is_there: bool = True) -> QueueSpec:
    return QueueSpec(
        id="7a54f2a6-6bb2-4f0e-9d5e-1d5f30a8a004",
        tenant="vision",
        object_name="vision-dddddddddd",
        cohort="research-eeeeeeeeee",
        generation=2,
        suspend=suspend,
        quotas=quotas,
        namespace_is_there=namespace_is_there,
    )
