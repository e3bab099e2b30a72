"""Keeps of an allocation whether it is a part of a device that others may hold too."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0020_start_seen")]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="in_shares",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="the share is a part of a device that others may hold too",
            ),
        ),
    ]
