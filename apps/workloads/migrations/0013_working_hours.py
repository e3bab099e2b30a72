"""When the working hours of a notebook stop or start it."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0004_leadership'),
        ('quotas', '0001_initial'),
        ('tenants', '0003_group_rules'),
        ('workloads', '0012_templates'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='hours_due_at',
            field=models.DateTimeField(help_text='when its working hours stop it or, while it is stopped, start it; null: never', null=True),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(condition=models.Q(('hours_due_at__isnull', False)), fields=['hours_due_at'], name='workload_by_hours'),
        ),
    ]
