from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("workloads", "0019_secret_key_of_a_run"),
    ]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="traces",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="generations with the traceparent of the requests that asked for them, the newest first",
                max_length=300,
            ),
        ),
    ]
