"""Adds up, by account, the buckets that are there."""

import django.db.models.deletion
from django.db import migrations, models


WEIGHT = "(CAST(share_us AS double precision) / (denominator * held_us))"
FIGURES = {
    "gpu_us": "CAST(share_us AS double precision) / denominator",
    **{name: f"{name} * {WEIGHT}" for name in ("seen_us", "smi_us", "sm_us", "tensor_us", "dram_us")},
    **{name: f"{name}_sum / 1000000.0 * {WEIGHT}" for name in ("smi", "sm", "tensor", "dram")},
    "beside": f"CASE WHEN smi_us > 0 THEN sm_sum / 1000000.0 * {WEIGHT} ELSE 0 END",
}
FILL = f"""
INSERT INTO metering_accountsum
    (level, starts_at, cluster_id, account, reason, owner, tenant_id, {", ".join(FIGURES)})
SELECT level, starts_at, cluster_id, account, reason, COALESCE(CAST(tenant_id AS varchar(36)), ''), tenant_id,
    {", ".join(f"SUM(CAST(ROUND({sql}) AS bigint))" for sql in FIGURES.values())}
FROM metering_bucket WHERE held_us > 0
GROUP BY level, starts_at, cluster_id, account, reason, tenant_id
"""  # noqa: S608 - as of this migration, of names of our own


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [
        ('cluster', '0006_held_after_a_backup'),
        ('metering', '0021_in_shares'),
        ('tenants', '0006_member_invitations'),
    ]

    operations = [
        migrations.CreateModel(
            name='AccountSum',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('level', models.IntegerField(help_text='300, 3600 or 86400')),
                ('starts_at', models.DateTimeField()),
                ('account', models.CharField(choices=[('tenant', 'Tenant'), ('idle', 'Idle'), ('unattributed', 'Unattributed')], max_length=12)),
                ('reason', models.CharField(blank=True, max_length=16)),
                ('owner', models.CharField(blank=True, help_text="the tenant's id as text, or empty", max_length=36)),
                ('gpu_us', models.BigIntegerField()),
                ('seen_us', models.BigIntegerField()),
                ('smi_us', models.BigIntegerField()),
                ('sm_us', models.BigIntegerField()),
                ('tensor_us', models.BigIntegerField()),
                ('dram_us', models.BigIntegerField()),
                ('smi', models.BigIntegerField()),
                ('sm', models.BigIntegerField()),
                ('tensor', models.BigIntegerField()),
                ('dram', models.BigIntegerField()),
                ('beside', models.BigIntegerField(help_text='of SM active, what nvidia-smi has a figure of, too')),
                ('cluster', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='cluster.cluster')),
                ('tenant', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'level', 'starts_at'], name='account_sum_by_tenant')],
                'constraints': [models.UniqueConstraint(fields=('level', 'starts_at', 'cluster', 'account', 'reason', 'owner'), name='account_sum_once')],
            },
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
