from django.db import migrations, models


class Migration(migrations.Migration):
    """Past runs of a tenant, and the few events that tell of a preemption."""

    dependencies = [("workloads", "0021_lease_index")]

    operations = [
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(fields=["tenant", "ended_at"], name="workload_by_end"),
        ),
        migrations.AddIndex(
            model_name="workloadevent",
            index=models.Index(
                condition=models.Q(("reason", "Preempted"), ("source", "kueue")),
                fields=["reason", "at"],
                name="workload_event_preempted",
            ),
        ),
    ]
