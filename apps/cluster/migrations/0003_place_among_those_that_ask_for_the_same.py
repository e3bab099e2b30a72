from typing import Any

from django.db import migrations, models


def fill(apps: Any, _: Any) -> None:
    """As the watcher fills it from now on (`queueing.asks_of`), of what is in the mirror already."""
    rows = apps.get_model("cluster", "MirrorObject").objects.filter(kind="Workload").exclude(queue_state="")
    for row in rows.only("pk", "body").iterator(chunk_size=500):
        asked = {
            name
            for pod_set in (row.body.get("spec") or {}).get("podSets") or ()
            for container in pod_set.get("resources") or ()
            for name in {**(container.get("requests") or {}), **(container.get("limits") or {})}
            if "/" in name
        }
        rows.filter(pk=row.pk).update(queue_asks=" ".join(sorted(asked))[:256])


class Migration(migrations.Migration):
    """A place counts those that ask for the same devices."""

    dependencies = [
        ("cluster", "0002_mirror_by_cluster_and_uid"),
    ]

    operations = [
        migrations.AddField(
            model_name="mirrorobject",
            name="queue_asks",
            field=models.CharField(
                blank=True,
                default="",
                help_text="resource names of the devices that it asks for",
                max_length=256,
            ),
            preserve_default=False,
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="mirrorobject", name="mirror_by_queue"),
        migrations.AddIndex(
            model_name="mirrorobject",
            index=models.Index(
                fields=["cluster", "queue_state", "namespace", "gone_at", "queue_asks", "queue_rank"],
                name="mirror_by_place",
            ),
        ),
    ]
