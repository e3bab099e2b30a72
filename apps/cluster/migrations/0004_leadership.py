from django.db import migrations, models


class Migration(migrations.Migration):
    """Any number of clocks and watchers; one of each works."""

    dependencies = [
        ("cluster", "0003_place_among_those_that_ask_for_the_same"),
    ]

    operations = [
        migrations.CreateModel(
            name="Leadership",
            fields=[
                (
                    "name",
                    models.CharField(
                        help_text="clock, or watcher:<id of a cluster>",
                        max_length=80,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("holder", models.CharField(blank=True, max_length=120)),
                ("term", models.PositiveBigIntegerField(default=0, help_text="how often it went to another")),
                ("until", models.DateTimeField()),
            ],
        ),
    ]
