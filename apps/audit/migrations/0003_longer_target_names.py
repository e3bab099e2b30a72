"""A target may be a node, a registry or a person: names of up to 253 characters."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0002_for_lists'),
    ]

    operations = [
        migrations.AlterField(
            model_name='auditevent',
            name='target_name',
            field=models.CharField(max_length=255),
        ),
    ]
