"""The catalogue of templates, and from which one a workload was made."""

import apps.tenants.specs
import apps.workloads.specs
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0004_leadership'),
        ('quotas', '0001_initial'),
        ('tenants', '0002_registries'),
        ('workloads', '0011_kinds_are_modules'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Template',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, unique=True)),
                ('name', models.CharField(max_length=120)),
                ('description', models.CharField(blank=True, max_length=500)),
                ('kind', models.CharField(choices=apps.workloads.specs.kind_choices, help_text='of its newest version', max_length=16)),
                ('version', models.PositiveIntegerField(default=1, help_text='its newest')),
                ('least_trust', models.CharField(choices=[('untrusted', 'Untrusted'), ('standard', 'Standard'), ('trusted', 'Trusted')], default=apps.tenants.specs.TrustLevel['UNTRUSTED'], max_length=16)),
                ('is_for_all', models.BooleanField(default=True, help_text='else for `departments` and `tenants` alone')),
                ('retired_at', models.DateTimeField(null=True)),
                ('retired_reason', models.CharField(blank=True, max_length=500)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name='TemplateDefaults',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('values', models.JSONField(default=dict, help_text='parameter -> value')),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name='TemplateVersion',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('parameters', models.JSONField(help_text='a list, in the order of the form')),
                ('workload', models.JSONField(help_text='the spec, with places such as {{hours}}')),
                ('notes', models.CharField(blank=True, help_text='what changed, for people', max_length=500)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddField(
            model_name='workload',
            name='template',
            field=models.SlugField(blank=True, db_default='', db_index=False, default='', help_text='the slug of the template it was made from; empty: of none', max_length=40),
        ),
        migrations.AddField(
            model_name='workload',
            name='template_version',
            field=models.PositiveIntegerField(help_text='and which version of it', null=True),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(condition=models.Q(('template', ''), _negated=True), fields=['template', '-created_at'], name='workload_by_template'),
        ),
        migrations.AddField(
            model_name='template',
            name='departments',
            field=models.ManyToManyField(related_name='templates', to='tenants.department'),
        ),
        migrations.AddField(
            model_name='template',
            name='tenants',
            field=models.ManyToManyField(related_name='templates', to='tenants.tenant'),
        ),
        migrations.AddField(
            model_name='templatedefaults',
            name='template',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='defaults', to='workloads.template'),
        ),
        migrations.AddField(
            model_name='templatedefaults',
            name='tenant',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='template_defaults', to='tenants.tenant'),
        ),
        migrations.AddField(
            model_name='templateversion',
            name='template',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='workloads.template'),
        ),
        migrations.AddConstraint(
            model_name='templatedefaults',
            constraint=models.UniqueConstraint(fields=('template', 'tenant'), name='template_defaults_once_per_tenant'),
        ),
        migrations.AddConstraint(
            model_name='templateversion',
            constraint=models.UniqueConstraint(fields=('template', 'number'), name='template_version_once'),
        ),
    ]
