"""What a whole GPU, or a core, costs per hour until somebody sets a price of their own.

Source: the order of magnitude of public clouds' on-demand list prices per GPU in autumn 2025, in the
installation's currency. A start for a demo or a first day, never a quotation.
"""

from decimal import ROUND_HALF_UP, Decimal

HOURLY = {
    "B200": Decimal("5.60"),
    "H200": Decimal("3.50"),
    "H100": Decimal("2.94"),
    "A100": Decimal("2.10"),
    "L40S": Decimal("1.54"),
    "A10G": Decimal("1.05"),
    "A10": Decimal("0.98"),
    "A30": Decimal("0.91"),
    "V100": Decimal("1.40"),
    "L4": Decimal("0.70"),
    "T4": Decimal("0.35"),
}

SPOT_FACTOR = Decimal("0.35")
"""Spot capacity is 60-80 % cheaper and may go at any time."""

CORE_HOURLY, GIB_HOURLY = Decimal("0.03"), Decimal("0.004")
"""A core of a node without a GPU, and each GiB that comes with it."""


def of_core(memory_bytes: int) -> Decimal:
    """The list price of a core with so much memory per hour, to a hundredth of a cent."""
    return (CORE_HOURLY + GIB_HOURLY * memory_bytes / 1024**3).quantize(Decimal("0.0001"), ROUND_HALF_UP)
