"""The catalogue of images, the rule on others, and how the image of a run is pulled."""

import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0002_registries'),
        ('workloads', '0007_array_items'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='keeps_image',
            field=models.BooleanField(default=False, db_default=False, help_text='of the present run: PlacementSpec.keeps_image, settled when it is made'),
        ),
        migrations.AddField(
            model_name='workload',
            name='names_pull_secret',
            field=models.BooleanField(default=False, db_default=False, help_text="of the present run: its pods name the tenant's pull secret"),
        ),
        migrations.CreateModel(
            name='ImageRule',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('allowed', models.CharField(choices=[('any', 'Any image'), ('listed', 'Images below listed registries'), ('catalogue', 'No other image')], default="any", max_length=16)),
                ('prefixes', models.JSONField(default=list, help_text='registries, or repositories in them')),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('tenant', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='image_rule', to='tenants.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='Image',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, unique=True)),
                ('name', models.CharField(max_length=120)),
                ('description', models.CharField(blank=True, max_length=500)),
                ('reference', models.CharField(max_length=255)),
                ('full_reference', models.CharField(max_length=280)),
                ('size_bytes', models.BigIntegerField(help_text='compressed, as it is pulled; null: unknown', null=True)),
                ('cuda_version', models.CharField(blank=True, help_text='such as 12.4; empty: it has none', max_length=8)),
                ('kinds', models.JSONField(default=list, help_text='workloads.specs.Kind; in order')),
                ('is_for_all', models.BooleanField(default=True, help_text='else for `tenants` alone')),
                ('retired_at', models.DateTimeField(null=True)),
                ('retired_reason', models.CharField(blank=True, max_length=500)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('tenants', models.ManyToManyField(related_name='images', to='tenants.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('retired_at', None)), fields=('full_reference',), name='image_once_in_the_catalogue')],
            },
        ),
    ]
