"""Runs the checks of `attestation` with the probe's own token, keeps the outcome. Judges nothing itself."""

import logging
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.gateway.port import Gateway, Probe, open_gateway, open_probe
from apps.cluster.specs import Manifest
from apps.cluster.watching.services import capabilities
from apps.tenants.attestation.rules import checks as attestation_checks
from apps.tenants.attestation.rules.checks import LISTED, Check, Findings, Outcome, Right
from apps.tenants.isolation.manifests import probe_account
from apps.tenants.models import IsolationAttestation, Tenant
from apps.tenants.specs import ACCESS_NAMESPACE, Verdict
from apps.web.streams import events

TOKEN_SECONDS = 600
ALIEN = ("kube-system", "allotment-system", ACCESS_NAMESPACE)
_log = logging.getLogger(__name__)


def attest(pk: str | UUID, *, now: datetime, gateway: Gateway | None = None) -> IsolationAttestation | None:
    """Checks one tenant and stores the outcome; None for one that is going or whose cluster gives no answer.

    An attestation that could not be run stays due: the sweep asks again.
    """
    tenant = Tenant.objects.select_related("cluster").filter(pk=pk, deleting_at=None).first()
    if tenant is None:
        return None
    try:
        outcomes = _outcomes(tenant, gateway or open_gateway(tenant.cluster))
    except (Unreachable, Rejected) as error:
        # The tenant stays due, and its page says since when; why is in the log.
        _log.warning("isolation of %s not attested: %s", tenant.slug, error)
        return None
    return _keep(tenant, outcomes, now)


def _outcomes(tenant: Tenant, gateway: Gateway) -> list[Outcome]:
    account = probe_account(tenant.object_name)
    token, _ = gateway.create_token(ACCESS_NAMESPACE, account, seconds=TOKEN_SECONDS)
    probe = open_probe(tenant.cluster, token)
    checks = attestation_checks.checks(tenant.object_name, [*ALIEN, *_neighbours(tenant)])
    found = Findings(
        evaluates_policies=capabilities.evaluates_policies(gateway),
        control=_refusal(probe, attestation_checks.plain_pod(tenant.object_name)),
        held=_held(probe, checks),
        refusals=_refusals(probe, checks),
        listed={kind: probe.list(kind, namespace=tenant.object_name)[0] for kind in LISTED},
    )
    return [attestation_checks.judge(check, found) for check in checks]


def _neighbours(tenant: Tenant) -> list[str]:
    """Another tenant of the same cluster, where there is one."""
    others = Tenant.objects.filter(cluster=tenant.cluster_id, deleted_at=None).exclude(pk=tenant.pk)
    return list(others.order_by("created_at").values_list("object_name", flat=True)[:1])


def _held(probe: Probe, checks: Sequence[Check]) -> set[Right]:
    return {
        right
        for check in checks
        for right in check.rights
        if probe.may(right.verb, right.resource, group=right.group, namespace=right.namespace)
    }


def _refusals(probe: Probe, checks: Sequence[Check]) -> dict[tuple[str, int], str | None]:
    return {
        (check.key, index): _refusal(probe, attempt.manifest)
        for check in checks
        for index, attempt in enumerate(check.attempts)
    }


def _refusal(probe: Probe, manifest: Manifest) -> str | None:
    try:
        probe.try_create(manifest)
    except Rejected as error:
        return error.message
    return None


def _keep(tenant: Tenant, outcomes: Sequence[Outcome], now: datetime) -> IsolationAttestation:
    counts = {verdict: sum(each.verdict is verdict for each in outcomes) for verdict in Verdict}
    with transaction.atomic():
        made = IsolationAttestation.objects.create(
            tenant=tenant,
            at=now,
            generation=tenant.generation,
            results=[
                {"key": each.key, "title": each.title, "verdict": each.verdict.value, "words": each.words}
                for each in outcomes
            ],
            passed=counts[Verdict.PASSED],
            failed=counts[Verdict.FAILED],
            not_checked=counts[Verdict.NOT_CHECKED],
        )
        row = Tenant.objects.filter(pk=tenant.pk)
        row.update(
            attested_generation=tenant.generation, attested_at=now if made.passed == len(outcomes) else None
        )
        # This run does not answer a request that came after it began.
        row.filter(attestation_due_at__lte=now).update(attestation_due_at=None)
        transaction.on_commit(lambda: _tell(tenant))
    return made


def _tell(tenant: Tenant) -> None:
    events.publish([f"tenant:{tenant.slug}", "console"], part="attestation", data={"type": "tenant.updated"})
