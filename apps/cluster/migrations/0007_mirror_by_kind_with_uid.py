from django.db import migrations, models


class Migration(migrations.Migration):
    """What metering asks of tombstones is answered by the index alone."""

    dependencies = [("cluster", "0006_held_after_a_backup")]

    operations = [
        migrations.RemoveIndex(model_name="mirrorobject", name="mirror_by_kind"),
        migrations.AddIndex(
            model_name="mirrorobject",
            index=models.Index(fields=["cluster", "kind", "gone_at", "uid"], name="mirror_by_kind"),
        ),
    ]
