"""Roll-ups tell which of their idle time has no figure of SM active."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0004_kubectl_holding")]

    operations = [
        migrations.AddField(
            model_name="bucket",
            name="blind_idle",
            field=models.BigIntegerField(db_default=0, default=0, help_text="of idle: without SM active"),
        ),
    ]
