"""Makes room for what is held by kubectl among the allocations; the rows are moved by 0011."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0009_counters_and_watts'),
        ('quotas', '0001_initial'),
        ('tenants', '0001_initial'),
        ('workloads', '0004_workload_last_refund'),
    ]

    operations = [
        migrations.RemoveConstraint(model_name='allocation', name='allocation_once_per_claim_device'),
        migrations.AddField(
            model_name='allocation',
            name='origin',
            field=models.CharField(choices=[('allotment', 'Allotment'), ('kubectl', 'kubectl')], default='allotment', max_length=12),
        ),
        migrations.AddField(
            model_name='allocation',
            name='root',
            field=models.CharField(blank=True, default='', help_text='of kubectl: what made its pod, job/train', max_length=300),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='allocation',
            name='tenant',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant'),
        ),
        migrations.AlterField(
            model_name='allocation',
            name='workload',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='workloads.workload'),
        ),
        migrations.AlterField(
            model_name='allocation',
            name='offer',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='quotas.offer'),
        ),
        migrations.AlterField(
            model_name='allocation',
            name='claim_uid',
            field=models.CharField(help_text="the pod's behind a device plugin", max_length=64),
        ),
        migrations.AlterField(
            model_name='allocation',
            name='created_at',
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
        # Without its constraint the column may name a row of either table while the rows move.
        migrations.AlterField(
            model_name='finding',
            name='made',
            field=models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='metering.kubectlholding'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.UniqueConstraint(condition=models.Q(('origin', 'allotment')), fields=('claim_uid', 'device'), name='allocation_once_per_claim_device'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None), ('origin', 'kubectl')), fields=('claim_uid', 'device'), name='allocation_one_open_by_kubectl'),
        ),
    ]
