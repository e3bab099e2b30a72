"""Keeps of an allocation whether its start is only when it was seen."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0019_sample_device_index")]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="is_start_seen",
            field=models.BooleanField(
                db_default=False, default=False, help_text="the claim did not say when it was allocated"
            ),
        ),
    ]
