from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("quotas", "0002_cpu_cores"),
    ]

    operations = [
        migrations.AddField(
            model_name="flavor",
            name="traces",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="generations with the traceparent of the requests that asked for them, the newest first",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="offer",
            name="traces",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="generations with the traceparent of the requests that asked for them, the newest first",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="tenantqueue",
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
