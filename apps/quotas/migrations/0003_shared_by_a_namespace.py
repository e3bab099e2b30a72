"""The quota of devices counts pods as well."""

from typing import Any

from django.db import migrations
from django.db.models import Q
from django.utils import timezone


def note(apps: Any, _editor: Any) -> None:
    """Every row that is there is due; one that is due earlier stays so."""
    date = timezone.now()
    rows = apps.get_model("quotas", "TenantQueue").objects.filter(deleted_at=None)
    rows.filter(Q(due_at=None) | Q(due_at__gt=date)).update(due_at=date)


class Migration(migrations.Migration):
    dependencies = [("quotas", "0002_cpu_cores")]
    operations = [migrations.RunPython(note, migrations.RunPython.noop)]
