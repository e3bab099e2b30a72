"""Registries of a tenant: how its private images are pulled."""

import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='has_registries',
            field=models.BooleanField(default=False, db_default=False, help_text='a RegistryCredential is there: its work names the Secret made of them'),
        ),
        migrations.CreateModel(
            name='RegistryCredential',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('registry', models.CharField(max_length=253)),
                ('sealed', models.TextField()),
                ('set_by', models.CharField(max_length=150)),
                ('set_at', models.DateTimeField()),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='registries', to='tenants.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'registry'), name='registry_once_per_tenant')],
            },
        ),
    ]
