"""What the clock starts: reading claims and pricing what they hold, every 15 seconds."""

from celery import shared_task
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering import services
from apps.metering.collect import collect


@shared_task(name="metering.collect")  # type: ignore[untyped-decorator]
def collect_allocations() -> None:
    """Every cluster; a silent one keeps what was last known of it."""
    now = timezone.now()
    for cluster in Cluster.objects.all():
        touched = collect(cluster, now=now)
        services.price_workloads(touched, now=now)
        services.bill(touched, now=now)
