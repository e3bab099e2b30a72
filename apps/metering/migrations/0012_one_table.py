"""What was held by kubectl has no table of its own any more."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0011_move_kubectl_holdings'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.AlterField(
            model_name='finding',
            name='made',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='metering.allocation'),
        ),
        migrations.DeleteModel(name='KubectlHolding'),
        migrations.AlterField(
            model_name='allocation',
            name='tenant',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('offer__isnull', False), ('origin', 'allotment'), ('workload__isnull', False)), models.Q(('origin', 'kubectl'), ('workload', None)), _connector='OR'), name='allocation_of_its_origin'),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(fields=['tenant', 'started_at'], name='allocation_by_tenant'),
        ),
    ]
