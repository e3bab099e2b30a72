"""When a statement was made is told by what makes it, so that its digest covers it; the database stays as it is."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0012_one_table'),
    ]

    operations = [
        migrations.AlterField(
            model_name='statement',
            name='created_at',
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
    ]
