"""A closed month keeps its file."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0015_recoverable_causes")]

    operations = [
        migrations.AddField(
            model_name="statement",
            name="focus_digest",
            field=models.CharField(
                db_default="",
                default="",
                help_text="SHA-256 of its file; empty: none was kept",
                max_length=64,
            ),
        ),
        migrations.CreateModel(
            name="StatementExport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("focus", models.BinaryField(help_text="CSV, packed with zlib")),
                (
                    "statement",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="export",
                        to="metering.statement",
                    ),
                ),
            ],
            options={"abstract": False},
        ),
    ]
