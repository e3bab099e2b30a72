"""What device plugins call GPUs, and what they call so that are none."""

import pytest

from apps.cluster.mirror.rules.plugin_resources import PRODUCT, Pool, is_gpu, is_other_device, pool_of

A100, SINGLE = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
MODEL = "NVIDIA A100 SXM4 40GB"
REPLICAS = "nvidia.com/gpu.replicas"
SOLD = ("cpu", "memory", "hugepages-2Mi", "allotment.dev/a100", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("resource", "amount", "labels", "pool"),
    [
        ("nvidia.com/gpu", "8", {PRODUCT: A100}, Pool(MODEL, 1, 1, 8)),
        ("nvidia.com/gpu", "8", {PRODUCT: f"{A100}-SHARED", REPLICAS: "4"}, Pool(MODEL, 4, 1, 8)),
        ("nvidia.com/gpu.shared", "8", {PRODUCT: A100, REPLICAS: "4"}, Pool(MODEL, 4, 1, 8)),
        ("nvidia.com/gpu.shared", "5", {PRODUCT: A100, REPLICAS: "2"}, Pool(MODEL, 5, 1, 5)),
        ("nvidia.com/gpu", "7", {PRODUCT: SINGLE, REPLICAS: "1"}, Pool(MODEL, 7, 1, 7)),
        ("nvidia.com/mig-1g.5gb", "7", {PRODUCT: A100, REPLICAS: "1"}, Pool(MODEL, 7, 1, 7)),
        ("nvidia.com/mig-3g.20gb", "2", {PRODUCT: A100}, Pool(MODEL, 7, 3, 6)),
        ("nvidia.com/mig-1g.5gb.me", "1", {PRODUCT: A100}, Pool(MODEL, 7, 1, 1)),
        (
            "nvidia.com/mig-1g.5gb.shared", "14",
            {PRODUCT: A100, "nvidia.com/mig-1g.5gb.replicas": "2"}, Pool(MODEL, 14, 1, 14),
        ),
        ("nvidia.com/mig-2g.12gb", "2", {PRODUCT: "NVIDIA-A30"}, Pool("NVIDIA A30", 4, 2, 4)),
        ("nvidia.com/gpu", "0", {}, None),
        ("nvidia.com/gpu", "many", {}, None),
        ("nvidia.com/hostdev", "8", {PRODUCT: A100}, None),
    ],
)  # fmt: skip
def test_what_a_plugin_hands_out_is_so_many_shares_of_so_many_gpus(
    resource: str, amount: str, labels: dict[str, str], pool: Pool | None
) -> None:
    assert pool_of(resource, amount, labels) == pool


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/hostdev", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
        "nvidia.com/rdma_shared_device_a", "nvidia.com/GA102GL_A10", "nvidia.com/pgpu", "nvidia.com/vgpu",
        "nvidia.com/imex-channel", "nvidia.com/sriov_mlnx", "nvidia.com/gpu-mem", "example.com/gpu",
    ],
)  # fmt: skip
def test_another_device_of_the_vendor_is_no_gpu(resource: str) -> None:
    assert is_other_device(resource)
    assert not is_gpu(resource)


@pytest.mark.parametrize("resource", SOLD)
def test_what_is_sold_is_no_other_device(resource: str) -> None:
    assert not is_other_device(resource)
