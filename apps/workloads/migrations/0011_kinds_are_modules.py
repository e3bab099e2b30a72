"""Which kinds there are is no part of the schema: the modules of apps.workloads.kinds say it."""

import apps.workloads.specs
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workloads", "0010_secrets")]

    operations = [
        migrations.AlterField(
            model_name="workload",
            name="kind",
            field=models.CharField(choices=apps.workloads.specs.kind_choices, max_length=16),
        ),
    ]
