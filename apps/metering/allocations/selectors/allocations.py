"""Allocations that an actor sees, when each began and ended, and how sure that is. Reads only."""

from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.accounts.specs import Actor
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.models import Allocation, Correction
from apps.metering.specs import Attribution, Confidence, Origin
from apps.quotas.specs import Mechanism, SharingMode
from apps.tenants.selectors import seen_by
from apps.web.requests.lookups import by_id

PLUGIN_MARK = "#"
"""In the ledger's name of a device that a device plugin handed out."""


def allocations_for(actor: Actor) -> QuerySet[Allocation]:
    """The allocations of the tenants an actor sees, those of deleted workloads included."""
    found = Allocation.objects.filter(tenant__in=seen_by(actor))
    return found.select_related("tenant__department", "workload__tenant", "offer")


def allocation_for(actor: Actor, pk: str | UUID) -> Allocation:
    """One allocation by id, if the actor sees its tenant; raises NotFound."""
    return by_id(allocations_for(actor), pk)


def between(rows: QuerySet[Allocation], begins: datetime, ends: datetime) -> QuerySet[Allocation]:
    """Those that overlap [begins, ends), by their newest correction where there is one."""
    moved = corrected_between(rows, begins, ends)
    chosen = _uncorrected(begins, ends) | Q(pk__in=moved.values("pk"))
    return rows.filter(chosen).prefetch_related("corrections")


def uncorrected_between(rows: QuerySet[Allocation], begins: datetime, ends: datetime) -> QuerySet[Allocation]:
    """Those of them that were never corrected."""
    return rows.filter(_uncorrected(begins, ends))


def corrected_between(rows: QuerySet[Allocation], begins: datetime, ends: datetime) -> QuerySet[Allocation]:
    """Those of them that were, by the newest correction: `began` and `over`."""
    newest = Correction.objects.filter(allocation=OuterRef("pk")).order_by("-pk")
    corrected = rows.filter(pk__in=Correction.objects.values("allocation")).annotate(
        began=Subquery(newest.values("started_at")[:1]),
        over=Coalesce(Subquery(newest.values("ended_at")[:1]), "ended_at"),
    )
    return corrected.filter(began__lt=ends).filter(Q(over=None) | Q(over__gt=begins))


def _uncorrected(begins: datetime, ends: datetime) -> Q:
    held = Q(started_at__lt=ends) & (Q(ended_at=None) | Q(ended_at__gt=begins))
    return held & ~Q(pk__in=Correction.objects.values("allocation"))


def interval_of(row: Allocation, now: datetime) -> Interval:
    """The interval, by the newest correction; an open one up to now. Prefetch `corrections`."""
    started_at, ended_at = row.interval
    return Interval(started_at, max(started_at, ended_at or now))


def attribution(row: Allocation) -> Attribution:
    """What named the device: the claim that Kubernetes allocated, which may not say when, or the kubelet by
    its device plugin; what asked for the cores: the pod.
    """
    if row.is_cores:
        return Attribution.POD
    is_plugin = row.offer is not None and row.offer.mechanism == Mechanism.DEVICE_PLUGIN
    if is_plugin or PLUGIN_MARK in row.device:
        return Attribution.DEVICE_PLUGIN
    return Attribution.CLAIM_SEEN if row.is_start_seen else Attribution.CLAIM


def confidence(row: Allocation) -> Confidence:
    """RULE: of a GPU or device that several share, what each did is not known; a device without a UUID cannot
    be joined with telemetry; a MIG slice and a whole GPU are their holder's alone. Of cores nothing is
    measured.
    """
    if row.is_cores:
        return Confidence.NO_DEVICE
    if row.in_shares:
        return Confidence.SHARED_SPLIT
    if row.origin == Origin.KUBECTL or row.offer is None:
        return _confidence_by_device(row)
    mode = SharingMode(row.offer.sharing_mode)
    if mode not in (SharingMode.EXCLUSIVE, SharingMode.MIG) and row.share_denominator > 1:
        return Confidence.SHARED_SPLIT
    if not row.device_uuid:
        return Confidence.UNKNOWN
    return Confidence.MIG if mode is SharingMode.MIG else Confidence.EXCLUSIVE


def _confidence_by_device(row: Allocation) -> Confidence:
    """Of what was made with kubectl the device alone tells: a claim names a whole GPU or a slice; a device
    plugin says not which GPU it gave, and one of several replicas is shared.
    """
    if PLUGIN_MARK not in row.device:
        return Confidence.MIG if row.share_numerator < row.share_denominator else Confidence.EXCLUSIVE
    is_slice = "/mig-" in row.gpu
    return Confidence.SHARED_SPLIT if row.share_denominator > 1 and not is_slice else Confidence.UNKNOWN
