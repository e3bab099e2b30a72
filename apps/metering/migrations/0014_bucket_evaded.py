"""What a finding calls evaded is no work: its time is made anew, in months that are not closed."""

from itertools import islice
from typing import Any

from django.db import migrations, models
from django.db.models import Max

AT_ONCE = 2000


def make_anew(apps: Any, _schema: Any) -> None:
    """Mark roll-ups of 5 minutes that are hoarded while counters moved, after the newest closed month."""
    bucket, mark = apps.get_model("metering", "Bucket"), apps.get_model("metering", "DirtySpan")
    closed = apps.get_model("metering", "Statement").objects.aggregate(month=Max("month"))["month"]
    rows = bucket.objects.filter(hoarded__gt=0, sm_sum__gt=0, level=300).order_by()
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
    dependencies = [("metering", "0013_statement_created_at")]

    operations = [
        migrations.AddField(
            model_name="bucket",
            name="evaded",
            field=models.BigIntegerField(db_default=0, default=0, help_text="of SM active: no work"),
        ),
        migrations.RunPython(make_anew, migrations.RunPython.noop),
    ]
