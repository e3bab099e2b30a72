"""Which offers a tenant may use by its trust level, and the words when not. Pure."""

from functools import lru_cache

from apps.quotas.specs import SharingMode
from apps.tenants.specs import TrustLevel


@lru_cache(maxsize=32)
def needed(mode: SharingMode, minimum: TrustLevel) -> TrustLevel:
    """The trust an offer asks for: its own minimum, and never less than its sharing mode does.

    Rule: memory and faults isolated (whole GPU, MIG) suits everybody; MPS and time-slicing isolate no faults
    and are for tenants of standard trust, who meet only themselves on a device; a fraction is a soft limit,
    for trusted ones.
    """
    return max(minimum, mode.least_trust, key=lambda level: level.rank)


def needs_own_nodes(mode: SharingMode) -> bool:
    """Whether it is sold only on nodes that serve one tenant alone: a device plugin's shares, of which the
    kubelet picks the device, so that two tenants on a node could meet on one.
    """
    return mode in (SharingMode.MPS, SharingMode.TIME_SLICING)


def refusal(
    *,
    offer: str,
    mode: SharingMode,
    minimum: TrustLevel,
    tenant: str,
    trust: TrustLevel,
    on_own_nodes: bool = True,
) -> str:
    """Empty when the tenant may use the offer; else why not, in words that name what would allow it."""
    least = needed(mode, minimum)
    if trust.rank >= least.rank:
        is_sold = on_own_nodes or not needs_own_nodes(mode)
        return "" if is_sold else f"{offer} shares GPUs: it is sold only on nodes that serve one tenant."
    words = f"{offer} needs trust level {least.value}; {tenant} is {trust.value}."
    return words if mode.isolates_memory else f"{words} {mode.isolation}."
