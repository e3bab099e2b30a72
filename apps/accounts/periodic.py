"""What the clock does for accounts: forgetting sessions that are over, ending views that are."""

from celery import shared_task
from django.utils import timezone

from apps.accounts import sessions
from apps.accounts.viewing import services as viewing


@shared_task(name="accounts.prune_sessions", ignore_result=True)  # type: ignore[untyped-decorator]
def prune_sessions() -> None:
    """Hourly."""
    sessions.prune(timezone.now())


@shared_task(name="accounts.end_views", ignore_result=True)  # type: ignore[untyped-decorator]
def end_views() -> None:
    """Every minute: the person hears of a view whose engineer has just closed the browser, too."""
    viewing.end_lapsed(timezone.now())
