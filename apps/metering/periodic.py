"""What the clock starts: reading claims and pricing what they hold, every 15 seconds."""

from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.cluster import request_cache
from apps.cluster.models import Cluster
from apps.metering.allocations.services import left_memory
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.services import pricing_run
from apps.metering.findings.services import auto_stop, kubectl_findings, lifecycle, measuring, resize_rollback
from apps.metering.history.selectors import progress
from apps.metering.ledger.services import rollup, verifying
from apps.metering.telemetry.services import issues, partitions, polling
from apps.prepared import Prepared
from apps.web import self_checks

_CLUSTERS = Prepared(Cluster.objects.all)
MOST_UNTOLD = 20
"""How many times a run looks for what was not priced."""


@shared_task(name="metering.collect")  # type: ignore[untyped-decorator]
def collect_allocations() -> None:
    """Every cluster; a silent one keeps what was last known of it.

    RULE: priced at a moment after it was read. What ended meanwhile is touched by no later tick, and is
    charged to its end now. What holds on is priced once a minute, and billed at every tick: that is what a
    budget may be overrun by.
    """
    for cluster in _CLUSTERS():
        with request_cache.scope():
            touched = collect(cluster, now=timezone.now())
        now = timezone.now()
        pricing_run.price_workloads(touched.changed | pricing_run.due(touched.steady, now=now), now=now)
        pricing_run.bill(touched.workloads, now=now)


@shared_task(name="metering.price_untold")  # type: ignore[untyped-decorator]
def price_untold() -> None:
    """What nobody has priced, or an older release. Seldom: it is looked for among all there ever was."""
    for _ in range(MOST_UNTOLD):
        left = pricing_run.untold()
        if not left:
            break
        pricing_run.price_workloads(left, now=timezone.now())


@shared_task(name="metering.judge")  # type: ignore[untyped-decorator]
def judge_workloads() -> None:
    """Judges a slice of what runs by its telemetry, and stops what idled to the end of its countdown."""
    lifecycle.judge_due(now=timezone.now())
    kubectl_findings.judge_due(now=timezone.now())
    auto_stop.stop_due(now=timezone.now())
    resize_rollback.step_back_due(now=timezone.now())


@shared_task(name="metering.roll")  # type: ignore[untyped-decorator]
def roll_up() -> None:
    """What was marked dirty, and the time that has passed; what is left is the next tick's. What is found,
    and what has ended, costs what the ledger says.

    RULE: a past that comes in is rolled up by whoever brings it in, with helpers: here it would keep all
    others from writing meanwhile.
    """
    now = timezone.now()
    rolled = rollup.roll_up(now=now, live_only=progress.is_coming_in())
    measuring.price_rolled({UUID(pk) for pk in rolled.tenants}, now=now)
    pricing_run.price_ended(rolled.workloads, now=now)
    rollup.tell_pages(rolled)


@shared_task(name="metering.prune_ledger")  # type: ignore[untyped-decorator]
def prune_ledger() -> None:
    """Drops the fine rows of days that only hours and days are kept of."""
    rollup.prune_ledger(now=timezone.now())


@shared_task(name="metering.read_telemetry")  # type: ignore[untyped-decorator]
def read_telemetry() -> None:
    """Every cluster's telemetry since it was last read; one that is silent is asked again next time."""
    for cluster in _CLUSTERS():
        polling.read_telemetry(cluster, now=timezone.now())


@shared_task(name="metering.watch_telemetry")  # type: ignore[untyped-decorator]
def watch_telemetry() -> None:
    """Looks for gaps, frozen exporters, missing fields, and memory left on free devices, in what was lately
    read.
    """
    for cluster in _CLUSTERS():
        polling.watch_telemetry(cluster, now=timezone.now())
        left_memory.watch(cluster, now=timezone.now())


@shared_task(name="metering.keep_samples")  # type: ignore[untyped-decorator]
def keep_samples() -> int:
    """Makes the partitions of the next days and drops samples, and issues, that are no longer kept."""
    now, kept = timezone.now(), timedelta(days=settings.CONFIG.telemetry_retention_days)
    issues.forget(now - kept)
    return partitions.keep(now, kept)


# Acknowledged first, unlike all others: longer than the broker waits for an answer, it would be run twice.
@shared_task(name="metering.check_ledger", acks_late=False, soft_time_limit=1700, time_limit=1800)  # type: ignore[untyped-decorator]
def check_ledger() -> None:
    """Yesterday's buckets of every cluster whose check is due: made anew from facts and compared."""
    now, names = timezone.now(), set()
    for cluster in _CLUSTERS():
        name = f"{self_checks.LEDGER}{cluster.slug}"
        names.add(name)
        if self_checks.is_due(name, now):
            verdict = verifying.verify_yesterday(cluster, now=now)
            self_checks.note(name, seen=verdict.buckets, breaches=len(verdict.flaws), now=now)
    self_checks.keep(self_checks.LEDGER, names)
