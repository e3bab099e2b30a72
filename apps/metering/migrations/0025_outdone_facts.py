"""A fact of hardware says since when a later one holds instead: what a GPU is is little of what it ever was."""

from typing import Any

from django.db import migrations, models

GROUPS = {"gone": "present", "uncordoned": "cordoned", "healthy": "unhealthy", "unreserved": "reserved"}


def outdo(apps: Any, _: Any) -> None:
    """Of the facts of a group of a GPU each but the last was outdone by the next."""
    model = apps.get_model("metering", "HardwareFact")
    last: dict[tuple[Any, str, str], Any] = {}
    outdone = []
    for row in model.objects.only("cluster_id", "gpu", "kind", "at").order_by("at", "pk").iterator():
        group = row.cluster_id, row.gpu, GROUPS.get(row.kind, row.kind)
        if before := last.get(group):
            before.outdone_at = row.at
            outdone.append(before)
        last[group] = row
    model.objects.bulk_update(outdone, ["outdone_at"], batch_size=500)


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0024_allocation_by_end")]

    operations = [
        migrations.AddField(
            model_name="hardwarefact",
            name="outdone_at",
            field=models.DateTimeField(
                help_text="since when a later fact of its group holds instead", null=True
            ),
        ),
        migrations.RunPython(outdo, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            model_name="hardwarefact",
            index=models.Index(fields=["cluster", "at"], name="hardware_fact_by_time"),
        ),
        migrations.AddIndex(
            model_name="hardwarefact",
            index=models.Index(fields=["cluster", "outdone_at"], name="hardware_fact_that_holds"),
        ),
        migrations.AddIndex(
            model_name="hardwarefact",
            index=models.Index(fields=["cluster", "gpu", "outdone_at"], name="hardware_fact_of_gpu"),
        ),
        migrations.RemoveIndex(model_name="hardwarefact", name="hardware_fact_by_gpu"),
    ]
