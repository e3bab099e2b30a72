"""What a namespace has for all of them no workload keeps for itself, once the namespaces have it."""

from datetime import timedelta
from typing import Any

from django.db import migrations
from django.db.models import Q
from django.utils import timezone


def note(apps: Any, _editor: Any) -> None:
    """Every row that is there is due in a while; one that is due earlier stays so."""
    date = timezone.now() + timedelta(minutes=2)
    rows = apps.get_model("workloads", "Workload").objects.filter(deleted_at=None)
    rows.filter(Q(due_at=None) | Q(due_at__gt=date)).update(due_at=date)


class Migration(migrations.Migration):
    dependencies = [("workloads", "0016_shells")]
    operations = [migrations.RunPython(note, migrations.RunPython.noop)]
