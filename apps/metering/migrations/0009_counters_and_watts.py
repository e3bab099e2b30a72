"""Roll-ups in which a counter of 0 may contradict the watts of its board are made anew: it is unknown now, and
was idle. Not one transaction: a large table is read meanwhile.
"""

from itertools import islice
from typing import Any

from django.db import migrations
from django.db.models import F, Q

AT_ONCE = 2000


def make_anew(apps: Any, _schema: Any) -> None:
    """Mark those of 5 minutes for the next rolls: wasted time of a whole GPU in which nvidia-smi saw anything,
    or was not there to ask. Hours whose 5 minutes are no longer kept stay so.
    """
    bucket, mark = apps.get_model("metering", "Bucket"), apps.get_model("metering", "DirtySpan")
    wasted = Q(idle__gt=0) | Q(hoarded__gt=0) | Q(zombie__gt=0)
    told = Q(smi_sum__gt=0) | Q(smi_us__lt=F("seen_us"))
    rows = bucket.objects.filter(wasted, told, level=300, power_us_mw__gt=0).order_by()
    spots = rows.values_list("cluster_id", "gpu", "starts_at").distinct().iterator()
    while chunk := list(islice(spots, AT_ONCE)):
        mark.objects.bulk_create(
            (mark(cluster_id=cluster, gpu=gpu, starts_at=at) for cluster, gpu, at in chunk),
            ignore_conflicts=True,
        )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metering", "0008_kubectl_findings")]

    operations = [migrations.RunPython(make_anew, migrations.RunPython.noop)]
