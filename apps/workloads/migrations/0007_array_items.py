"""How far an array is; the next reconcile of one tells it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workloads", "0006_workload_cost_recoverable")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="items",
            field=models.JSONField(
                null=True,
                help_text="of an array: total, and which items are done and which failed, as 3,7-9",
            ),
        ),
    ]
