"""Hints to the workers: "look at this row". They may be lost, repeated or reordered; the sweep finds every
row anyway.

A hint never makes a request fail and never holds it up for more than half a second.
"""

from functools import cache
from typing import Any
from uuid import UUID

from celery import Celery, current_app
from django.apps import apps
from django.db import transaction
from kombu.pools import producers
from prometheus_client import Counter

from apps.cluster.reconciling.services import traced
from apps.web import spans
from apps.web.stores import silence

TASKS = {
    "workload": "workloads.reconcile",
    "node": "tenants.reconcile_node",
    "tenant": "tenants.reconcile_tenant",
    "attestation": "tenants.attest",
    "department": "tenants.reconcile_department",
    "queue": "quotas.reconcile_queue",
    "flavor": "quotas.reconcile_flavor",
    "offer": "quotas.reconcile_offer",
    "drift-check": "cluster.check_drift",
}
"""The kind of a row, as its label `allotment.dev/owner` says it, and the Celery task that reconciles it."""

ROWS = {
    "workload": "workloads.Workload",
    "tenant": "tenants.Tenant",
    "node": "tenants.NodeAssignment",
    "department": "tenants.Department",
    "queue": "quotas.TenantQueue",
    "flavor": "quotas.Flavor",
    "offer": "quotas.Offer",
}
"""The model of each row kind, by name: those apps lie above this one."""

LOST_HINTS = Counter(
    "allotment_wake_hints_lost_total", "Hints that the broker did not take; the sweep covers them."
)

URGENT, LATER = 0, 6
"""Priorities of Celery's Redis transport: the lower is taken first (CELERY_BROKER_TRANSPORT_OPTIONS)."""
_PATIENCE = 0.4


def hint(owner: str, pk: str | UUID, *, urgent: bool = True) -> None:
    """Wake the reconcile of one row once the present transaction commits (at once outside of one).

    What the cluster tells is not urgent: what a person asks for never queues behind the echoes of a fleet.
    A request that is traced leaves its trace on the row (`traced`), not in the hint, which may be lost.
    """
    if urgent and owner in ROWS and spans.current():
        traced.note(apps.get_model(ROWS[owner]), pk, owner)
    task, priority = TASKS[owner], URGENT if urgent else LATER
    transaction.on_commit(lambda: _send(task, str(pk), priority), robust=True)


def _send(task: str, pk: str, priority: int) -> None:
    if silence.holds():
        LOST_HINTS.inc()
        return
    app: Celery = current_app._get_current_object()
    try:
        with producers[_connection(app)].acquire(block=True, timeout=_PATIENCE) as producer:
            app.send_task(task, args=[pk], producer=producer, priority=priority, retry=False)
    except Exception as error:  # noqa: BLE001 - a hint is never worth a failure, whatever the broker's client raises
        LOST_HINTS.inc()
        silence.note(error)


@cache
def _connection(app: Celery) -> Any:
    """A connection of our own: the workers' waits for the broker are far longer than a request may be held
    up.
    """
    impatient = {"socket_connect_timeout": _PATIENCE, "socket_timeout": _PATIENCE, "max_retries": 1}
    options = {
        **(app.conf.broker_transport_options or {}),
        **impatient,
        "interval_start": 0,
        "interval_step": 0,
    }
    return app.connection_for_write(transport_options=options, connect_timeout=_PATIENCE)
