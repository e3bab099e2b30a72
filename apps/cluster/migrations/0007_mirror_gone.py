from django.db import migrations, models


class Migration(migrations.Migration):
    """What metering asks of tombstones is answered by an index alone.

    It is one of its own: of two that fit alike SQLite takes the one that was made last, and `mirror_by_kind`
    made anew would take the place of others.
    """

    dependencies = [("cluster", "0006_held_after_a_backup")]

    operations = [
        migrations.AddIndex(
            model_name="mirrorobject",
            index=models.Index(
                condition=models.Q(("gone_at__isnull", False)),
                fields=["cluster", "kind", "gone_at", "uid"],
                name="mirror_gone",
            ),
        ),
    ]
