"""What the product finds when it checks itself, kept so that a scrape reads it instead of checking again."""

from collections.abc import Collection
from datetime import datetime, timedelta

from apps.web.models import SelfCheck

AUDIT, LEDGER = "audit", "ledger:"
"""Names of checks; a cluster's slug follows the second."""
EVERY = timedelta(hours=6)


def note(name: str, *, seen: int, breaches: int, now: datetime, first: str = "") -> None:
    """Keeps the result of a check over the one before; `first` says where the first breach is."""
    found = {"checked_at": now, "seen": seen, "breaches": breaches, "first": first}
    SelfCheck.objects.update_or_create(name=name, defaults=found)


def keep(kind: str, names: Collection[str]) -> None:
    """Forgets the checks of a kind but these: a cluster that was removed is checked no more."""
    SelfCheck.objects.filter(name__startswith=kind).exclude(name__in=names).delete()


def is_due(name: str, now: datetime) -> bool:
    """Whether a check is older than `EVERY`, or was never made. The clock asks far more often: whatever it
    remembers is gone when it is started anew.
    """
    return not SelfCheck.objects.filter(name=name, checked_at__gt=now - EVERY).exists()


def last() -> list[SelfCheck]:
    """The last result of every check."""
    return list(SelfCheck.objects.order_by("name"))


def last_of(name: str) -> SelfCheck | None:
    """The last result of one check; None before the first."""
    return SelfCheck.objects.filter(name=name).first()
