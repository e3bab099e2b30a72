"""What of a workload's waste is recoverable; the next pricing tells it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workloads", "0005_openings")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="cost_recoverable",
            field=models.DecimalField(
                decimal_places=8,
                help_text="of the waste; the rest is inefficiency",
                max_digits=20,
                null=True,
            ),
        ),
    ]
