"""On PostgreSQL the (still empty) table of samples is made anew, partitioned by day."""

from typing import Any

from django.db import migrations

TABLE = "metering_sample"
STATEMENTS = (
    f"CREATE TABLE {TABLE}_by_day (LIKE {TABLE} INCLUDING DEFAULTS) PARTITION BY RANGE (ts)",
    f"DROP TABLE {TABLE}",
    f"ALTER TABLE {TABLE}_by_day RENAME TO {TABLE}",
    f"ALTER TABLE {TABLE} ADD PRIMARY KEY (device_id, ts)",
    # Rows come in order of time, so this costs nothing and answers "the last ten minutes of everything".
    f"CREATE INDEX metering_sample_by_time ON {TABLE} USING brin (ts) WITH (pages_per_range = 16)",
)


def partition(apps: Any, schema_editor: Any) -> None:
    """Days get their partitions from `apps.metering.partitions` when the first sample of them comes."""
    del apps
    if schema_editor.connection.vendor == "postgresql":
        for statement in STATEMENTS:
            schema_editor.execute(statement)


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0001_initial")]

    operations = [migrations.RunPython(partition, migrations.RunPython.noop)]
