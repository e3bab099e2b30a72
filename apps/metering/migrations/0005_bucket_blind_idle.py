"""Roll-ups tell which of their idle time has no figure of SM active; those that may have some are made anew."""

from typing import Any

from django.db import migrations, models


def make_anew(apps: Any, _schema: Any) -> None:
    """Mark them for the next roll: hours and days follow. What is older than 5 minutes are kept stays."""
    bucket, mark = apps.get_model("metering", "Bucket"), apps.get_model("metering", "DirtySpan")
    partly_blind = bucket.objects.filter(level=300, seen_us__gt=models.F("sm_us")).order_by()
    spots = partly_blind.values_list("cluster_id", "gpu", "starts_at").distinct()
    mark.objects.bulk_create(
        (mark(cluster_id=cluster, gpu=gpu, starts_at=at) for cluster, gpu, at in spots.iterator()),
        batch_size=2000,
        ignore_conflicts=True,
    )


class Migration(migrations.Migration):
    dependencies = [("metering", "0004_kubectl_holding")]

    operations = [
        migrations.AddField(
            model_name="bucket",
            name="blind_idle",
            field=models.BigIntegerField(db_default=0, default=0, help_text="of idle: without SM active"),
        ),
        migrations.RunPython(make_anew, migrations.RunPython.noop),
    ]
