"""What roll-ups of before say of idle time without SM active: the least that it can have been, and those of 5
minutes are made anew, hours and days with them. Not one transaction: a large table is read meanwhile.
"""

from itertools import islice
from typing import Any

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Greatest, Least

AT_ONCE = 2000


def bound(apps: Any, _schema: Any) -> None:
    """RULE: so much that nothing is partly used less than nothing. Hours whose 5 minutes are no longer kept
    stay so.
    """
    of_before = apps.get_model("metering", "Bucket").objects.filter(seen_us__gt=F("sm_us"), blind_idle=0)
    told = F("idle") + F("hoarded") + F("zombie") + F("sm_sum") - F("sm_us") * Value(1_000_000)
    of_before.update(blind_idle=Greatest(Value(0), Least(F("idle"), told)))


def make_anew(apps: Any, _schema: Any) -> None:
    """Mark those of 5 minutes for the next rolls."""
    bucket, mark = apps.get_model("metering", "Bucket"), apps.get_model("metering", "DirtySpan")
    partly_blind = bucket.objects.filter(level=300, seen_us__gt=F("sm_us")).order_by()
    spots = partly_blind.values_list("cluster_id", "gpu", "starts_at").distinct().iterator()
    while chunk := list(islice(spots, AT_ONCE)):
        mark.objects.bulk_create(
            (mark(cluster_id=cluster, gpu=gpu, starts_at=at) for cluster, gpu, at in chunk),
            ignore_conflicts=True,
        )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metering", "0005_bucket_blind_idle")]

    operations = [
        migrations.RunPython(bound, migrations.RunPython.noop),
        migrations.RunPython(make_anew, migrations.RunPython.noop),
    ]
