"""Where the first breach of a self-check is."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('web', '0002_self_check'),
    ]

    operations = [
        migrations.AddField(
            model_name='selfcheck',
            name='first',
            field=models.TextField(db_default='', default='', help_text='where the first breach is, in words'),
        ),
    ]
