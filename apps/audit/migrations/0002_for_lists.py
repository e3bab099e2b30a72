"""The audit record can be listed: an index for each thing that narrows the list."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0001_initial'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['at'], name='audit_by_time'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['chain', 'at'], name='audit_by_chain'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['actor', 'at'], name='audit_by_actor'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['action', 'at'], name='audit_by_action'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['target_kind', 'at'], name='audit_by_kind'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['request_id'], name='audit_by_request'),
        ),
    ]
