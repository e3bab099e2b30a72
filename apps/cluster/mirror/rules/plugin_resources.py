"""What device plugins call GPUs, slices of them and shares of both. Pure.

Source: NVIDIA's device plugin and GPU feature discovery v0.20: `nvidia.com/gpu`, by the strategy `mixed`
`nvidia.com/mig-<profile>`, renamed shares end with `.shared`; by the strategy `single` every `nvidia.com/gpu`
is a slice, and the product label ends with `-MIG-<profile>`. The label `<resource>.replicas` says how many
shares are made of each.

RULE: a vendor's prefix is no kind of thing. Network functions, memory in megabytes (HAMi), whole boards for
virtual machines and the like are other devices: listed, and never counted as GPUs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from apps.cluster.mirror.rules.hardware import compute_share

PRODUCT = "nvidia.com/gpu.product"
_GPU = re.compile(r"nvidia\.com/gpu(?:\.shared)?")
_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>(?:\d+c\.)?\d+g\.\d+gb)(?:\.[a-z]+)*")
_SINGLE = re.compile(r"-MIG-(?P<profile>(?:\d+c\.)?\d+g\.\d+gb)(?:\.[a-z]+)?$")
SHARED = ".shared"


def is_gpu(resource: str) -> bool:
    """Whether what a plugin calls so is a GPU, a slice of one, or a share of either."""
    return bool(_GPU.fullmatch(resource) or _MIG.fullmatch(resource))


def is_other_device(resource: str) -> bool:
    """Whether a node's extended resource is a device that is no GPU; ours are none of a plugin's."""
    return "/" in resource and not is_gpu(resource) and not resource.startswith("allotment.dev/")


@dataclass(frozen=True)
class Pool:
    """What a node has of one resource, together: so many physical GPUs' shares that nobody tells apart.

    `denominator` shares are a physical GPU, one device is `part` of them, and all together are `shares`.
    """

    model: str
    denominator: int
    part: int
    shares: int


def pool_of(resource: str, amount: object, labels: Mapping[str, str]) -> Pool | None:
    """What a node's amount of a resource is; None where it has none, or it is no GPU.

    RULE: shares / replicas devices; where that does not come out even, one of so many shares.
    """
    count = _count(amount) if is_gpu(resource) else 0
    if not count:
        return None
    product = labels.get(PRODUCT, "").removesuffix("-SHARED")
    mig = _MIG.fullmatch(resource) or _SINGLE.search(product)
    model = _SINGLE.sub("", product).replace("-", " ")
    numerator, whole = compute_share(model, mig["profile"]) if mig else (1, 1)
    replicas = _count(labels.get(f"{resource.removesuffix(SHARED)}.replicas", "1")) or count
    if count % replicas:
        replicas = count
    return Pool(model, whole * replicas, numerator, count * numerator)


def _count(amount: object) -> int:
    """Counts of devices are plain numbers; what is none is not counted."""
    return int(str(amount)) if str(amount).isdigit() else 0
