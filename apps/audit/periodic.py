"""What the clock does for the audit record: checking that its chains are whole."""

from celery import shared_task
from django.utils import timezone

from apps.audit import services
from apps.web import self_checks


# Acknowledged first, unlike all others: longer than the broker waits for an answer, it would be run twice.
@shared_task(name="audit.check", acks_late=False, soft_time_limit=1700, time_limit=1800, ignore_result=True)  # type: ignore[untyped-decorator]
def check_chains() -> None:
    """The whole record, where that is due; some 30 seconds for a million events."""
    now = timezone.now()
    if self_checks.is_due(self_checks.AUDIT, now):
        verdict = services.verify()
        self_checks.note(
            self_checks.AUDIT,
            seen=verdict.links,
            breaches=len(verdict.breaches),
            first=str(verdict.breaches[0]) if verdict.breaches else "",
            now=now,
        )
