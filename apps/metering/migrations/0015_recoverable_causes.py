"""Room for what crash loops and oversized work waste; crash loops' time is made anew in months not closed."""

from itertools import islice
from typing import Any

from django.db import migrations, models
from django.db.models import Max

AT_ONCE = 2000


def make_anew(apps: Any, _schema: Any) -> None:
    """Mark the idle roll-ups of 5 minutes of what was found in a crash loop, after the newest closed month."""
    bucket, mark = apps.get_model("metering", "Bucket"), apps.get_model("metering", "DirtySpan")
    looped = apps.get_model("metering", "Finding").objects.filter(kind="crash-loop", workload__isnull=False)
    closed = apps.get_model("metering", "Statement").objects.aggregate(month=Max("month"))["month"]
    rows = bucket.objects.filter(workload__in=looped.values("workload"), seen_us__gt=0, level=300).order_by()
    if closed is not None:
        following = (closed.year + closed.month // 12, closed.month % 12 + 1)
        rows = rows.filter(starts_at__date__gte=closed.replace(year=following[0], month=following[1], day=1))
    spots = rows.values_list("cluster_id", "gpu", "starts_at").distinct().iterator()
    while chunk := list(islice(spots, AT_ONCE)):
        mark.objects.bulk_create(
            (mark(cluster_id=cluster, gpu=gpu, starts_at=at) for cluster, gpu, at in chunk),
            ignore_conflicts=True,
        )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metering", "0014_bucket_evaded")]

    operations = [
        *(
            migrations.AddField("bucket", name, models.BigIntegerField(db_default=0, default=0))
            for name in ("crashing", "oversized")
        ),
        migrations.AddField(
            model_name="finding",
            name="too_much",
            field=models.PositiveIntegerField(
                db_default=1_000_000,
                default=1_000_000,
                help_text="millionths of each device that nobody needed then",
            ),
        ),
        migrations.RunPython(make_anew, migrations.RunPython.noop),
    ]
