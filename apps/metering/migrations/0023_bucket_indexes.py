"""Drops the indexes of a bucket's cluster, workload, tenant and offer: nothing reads by one of them alone.

By their names: Django would make the table anew on SQLite, and check every row's references on PostgreSQL.
"""

import django.db.models.deletion
from django.db import migrations, models


def reference(to: str, *, null: bool = True) -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False, null=null, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=to
    )


FIELDS = {
    "cluster": reference("cluster.cluster", null=False),
    "offer": reference("quotas.offer"),
    "tenant": reference("tenants.tenant"),
    "workload": reference("workloads.workload"),
}
INDEXES = (
    "metering_bucket_cluster_id_fc978de7",
    "metering_bucket_offer_id_d4efdaf0",
    "metering_bucket_tenant_id_936f947e",
    "metering_bucket_workload_id_c53a776a",
)


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0022_account_sums")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(model_name="bucket", name=name, field=field)
                for name, field in FIELDS.items()
            ],
            database_operations=[
                migrations.RunSQL(f"DROP INDEX IF EXISTS {name}", migrations.RunSQL.noop) for name in INDEXES
            ],
        )
    ]
