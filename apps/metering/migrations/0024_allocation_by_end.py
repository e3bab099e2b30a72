"""An allocation's cluster is indexed with its end: what is held now is little of what ever was.

The index of the cluster alone goes by its name: Django would make the table anew on SQLite.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0023_bucket_indexes")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="allocation",
                    name="cluster",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="cluster.cluster",
                    ),
                )
            ],
            database_operations=[
                migrations.RunSQL(
                    "DROP INDEX IF EXISTS metering_allocation_cluster_id_02bfe2c2", migrations.RunSQL.noop
                )
            ],
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["cluster", "ended_at"], name="allocation_by_end"),
        ),
    ]
