"""A cluster in this process brought to rest as the product brings it, and the same rows brought to an empty
one.
"""

import copy
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.cluster.models import Cluster, MirrorObject, Reconciled
from apps.cluster.reconciling.services import sweep
from apps.quotas.allowances.services import pools
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.catalogue.services.offer_reconcile import reconcile_flavor, reconcile_offer
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Department, NodeAssignment, Tenant
from apps.tenants.nodes.services.dedication import reconcile_node
from sandbox.api.controllers import lifecycle as namespaces
from sandbox.api.controllers.manager import Manager
from tests.quotas.fleet import with_fleet
from tests.tenants.in_process import InProcess

MANAGED = "app.kubernetes.io/managed-by=allotment"
KINDS = (
    "Namespace", "ServiceAccount", "RoleBinding", "ResourceQuota", "LimitRange", "NetworkPolicy",
    "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "DeviceClass",
)  # fmt: skip
ROUNDS = 16
"""After so many rounds of watch and reconcile nothing may be left to do."""
SOON = timedelta(minutes=1)
"""What is due within it counts as due: nobody waits for a second look here."""

Objects = dict[tuple[str, str, str], Any]
Act = Callable[..., None]
ROWS: tuple[tuple[type[Reconciled], Act], ...] = (
    (Department, reconcile_department),
    (NodeAssignment, reconcile_node),
    (Flavor, reconcile_flavor),
    (Offer, reconcile_offer),
    (Tenant, reconcile_tenant),
    (TenantQueue, reconcile_queue),
)


def api_server() -> tuple[InProcess, Manager]:
    """An API server with the fleet `story`, whose namespaces end as they do for real."""
    gateway = with_fleet(InProcess())
    manager = Manager(gateway.simulated)
    namespaces.install(gateway.simulated, manager)
    manager.drain()
    return gateway, manager


def objects_of(gateway: InProcess) -> Objects:
    """Every object of ours without what the server adds to it, and what a node serves."""
    found: Objects = {("Node", "", body["metadata"]["name"]): _node(body) for body in gateway.list("Node")[0]}
    for kind in KINDS:
        for body in gateway.list(kind, label_selector=MANAGED)[0]:
            place = (kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
            found[place] = _bare(body)
    return found


def watch(gateway: InProcess, cluster: Cluster) -> None:
    """What happened in the cluster reaches the mirror, and the rows that it concerns are due."""
    sweep.note(gateway.mirror(cluster))


def settle(gateway: InProcess, manager: Manager, cluster: Cluster) -> None:
    """Watch, and reconcile what the sweep finds, until a whole round makes no call.

    RULE: only what the product itself would find is looked at, so a change that tells nobody stays undone.
    """
    _rounds(gateway, manager, cluster, _found)


def fresh(cluster: Cluster) -> Objects:
    """The objects of an empty cluster to which the same rows are brought, whatever the sweep thinks."""
    with transaction.atomic():
        MirrorObject.objects.filter(cluster=cluster).delete()
        gateway, manager = api_server()
        _rounds(gateway, manager, cluster, _all)
        found = objects_of(gateway)
        transaction.set_rollback(True)
    return found


def _rounds(
    gateway: InProcess, manager: Manager, cluster: Cluster, wanted: Callable[[], Iterable[tuple[Act, Any]]]
) -> None:
    for _ in range(ROUNDS):
        manager.drain()
        watch(gateway, cluster)
        gateway.calls.clear()
        for act, pk in wanted():
            act(pk, gateway=gateway)
        if not gateway.calls and not _unfinished():
            return
    raise AssertionError(f"never settles: {gateway.calls} {_unfinished()}")


def _found() -> Iterable[tuple[Act, Any]]:
    """What the clock finds: see `periodic` of tenants and quotas."""
    pools.settle_all(now=timezone.now())
    for model, act in ROWS:
        for pk in sweep.due(model, timezone.now() + SOON, limit=1000):
            yield act, pk
    for pk in _behind().values_list("pk", flat=True):
        yield reconcile_queue, pk


def _all() -> Iterable[tuple[Act, Any]]:
    for model, act in ROWS:
        for pk in model._default_manager.filter(deleted_at=None).values_list("pk", flat=True):
            yield act, pk


def _behind() -> Any:
    rows = TenantQueue.objects.filter(deleted_at=None)
    return rows.exclude(tenant_generation=F("tenant__generation"))


def _unfinished() -> list[Reconciled]:
    """Rows whose wish has not arrived, and those on their way out."""
    found: list[Reconciled] = list(_behind())
    for model, _ in ROWS:
        rows = model._default_manager.filter(deleted_at=None)
        found += [*rows.exclude(generation=F("observed_generation")), *rows.exclude(deleting_at=None)]
    return found


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    bare = copy.deepcopy(body)
    bare.pop("status", None)
    kept = ("name", "namespace", "labels", "annotations")
    bare["metadata"] = {key: bare["metadata"][key] for key in kept if key in bare["metadata"]}
    return bare


def _node(body: dict[str, Any]) -> dict[str, Any]:
    metadata, spec = body["metadata"], body.get("spec", {})
    return {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "taints": sorted(spec.get("taints") or (), key=str),
        "shut": bool(spec.get("unschedulable")),
    }
