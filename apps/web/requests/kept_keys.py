"""How long an Idempotency-Key is kept; what forgets them is no web process and reads no REST."""

from datetime import datetime, timedelta

from apps.web.models import IdempotencyKey

KEPT = timedelta(hours=24)


def prune(now: datetime) -> int:
    """Delete keys older than 24 hours; returns how many."""
    return IdempotencyKey.objects.filter(created_at__lt=now - KEPT).delete()[0]
