"""Every allocation gets its workload's tenant, and what is held by kubectl becomes allocations, with its ids."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import OuterRef, Subquery

SAME = (
    "id", "cluster_id", "tenant_id", "offer_id", "capacity", "claim_uid", "device", "device_uuid", "gpu", "node", "root",
    "share_numerator", "share_denominator", "started_at", "ended_at",
)
AT_ONCE = 500


def move(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """RULE: a row of kubectl was written when it was seen, which is when it begins."""
    allocations, holdings, workloads = _models(apps, editor)
    whose = workloads.filter(pk=OuterRef("workload_id")).values("tenant_id")[:1]
    allocations.filter(tenant=None).update(tenant=Subquery(whose))
    _copy(
        holdings.values(*SAME).iterator(AT_ONCE),
        lambda row: allocations.model(origin="kubectl", workload=None, created_at=row["started_at"], **row),
        allocations,
    )
    _emptied(holdings.all())


def move_back(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """The same the other way round; the column of tenants goes with 0010."""
    allocations, holdings, _ = _models(apps, editor)
    made = allocations.filter(origin="kubectl")
    _copy(made.values(*SAME).iterator(AT_ONCE), lambda row: holdings.model(**row), holdings)
    _emptied(made)


def _models(apps: Apps, editor: BaseDatabaseSchemaEditor) -> list[Any]:
    names = (("metering", "Allocation"), ("metering", "KubectlHolding"), ("workloads", "Workload"))
    return [apps.get_model(*name).objects.using(editor.connection.alias) for name in names]


def _emptied(rows: Any) -> None:
    """The rows themselves: findings go on naming them by their ids, in the other table."""
    rows._raw_delete(rows.db)


def _copy(rows: Iterable[dict[str, Any]], make: Callable[[dict[str, Any]], Any], into: Any) -> None:
    rows = iter(rows)
    while batch := [make(row) for row in islice(rows, AT_ONCE)]:
        into.bulk_create(batch)


class Migration(migrations.Migration):

    dependencies = [("metering", "0010_one_holding")]

    operations = [migrations.RunPython(move, move_back)]
