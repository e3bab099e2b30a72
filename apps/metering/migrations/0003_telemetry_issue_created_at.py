"""An issue is listed by REST like every other object: by `created_at`."""

from django.db import migrations, models

from apps.metering.specs import TroubleKind


class Migration(migrations.Migration):
    """See the module."""

    dependencies = [("metering", "0002_sample_by_day")]

    operations = [
        migrations.RenameField("telemetryissue", "first_at", "created_at"),
        migrations.AlterField(
            "telemetryissue",
            "created_at",
            models.DateTimeField(help_text="when it was first seen"),
        ),
        migrations.AlterField(
            "telemetryissue",
            "kind",
            models.CharField(max_length=32, choices=TroubleKind.choices()),
        ),
    ]
