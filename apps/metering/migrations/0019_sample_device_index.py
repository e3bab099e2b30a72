"""Drops SQLite's index of a sample's device, with which the primary key begins; PostgreSQL has none.

By its name: Django would make the table anew, and a year of samples is large.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0018_stopped")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="sample",
                    name="device",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="metering.device",
                    ),
                )
            ],
            database_operations=[
                migrations.RunSQL(
                    "DROP INDEX IF EXISTS metering_sample_device_id_9a8db3ed", migrations.RunSQL.noop
                )
            ],
        )
    ]
