"""What answers of a cluster mean for the 18 checks, who may ask, and what the sandbox cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.utils import timezone

from apps.accounts.specs import system_actor
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import wake
from apps.errors import NotAllowed
from apps.tenants.attestation.rules import checks
from apps.tenants.attestation.rules.checks import Attempt, Check, Findings, Right
from apps.tenants.attestation.services import attestation_requests, probing
from apps.tenants.isolation.manifests import render_tenant
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel, Verdict
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.sandbox.running import Running, start
from tests.tenants.example import TENANT

SPACE = TENANT.object_name
CHECKS = checks.checks(SPACE, ["kube-system", "speech-aaaaaaaaaa"])
REFUSALS = {
    (check.key, index): f"no: {attempt.guards[0]} says so"
    for check in CHECKS
    for index, attempt in enumerate(check.attempts)
}
LISTED = {kind: [m for m in render_tenant(TENANT) if m["kind"] == kind] for kind in checks.LISTED}
FENCED = Findings(evaluates_policies=True, refusals=REFUSALS, listed=LISTED)


def verdicts(found: Findings) -> dict[str, Verdict]:
    return {check.key: checks.judge(check, found).verdict for check in CHECKS}


def not_passed(found: Findings) -> dict[str, Verdict]:
    return {key: verdict for key, verdict in verdicts(found).items() if verdict is not Verdict.PASSED}


def test_there_are_18_checks_and_a_fenced_tenant_passes_them_all() -> None:
    assert len(verdicts(FENCED)) == 18
    assert not_passed(FENCED) == {}


def test_every_check_asks_something() -> None:
    assert all(check.rights or check.attempts or check.standing for check in CHECKS)


@pytest.mark.parametrize("check", [each for each in CHECKS if each.rights], ids=lambda check: check.key)
def test_one_right_too_many_fails_its_check_and_is_named(check: Check) -> None:
    outcome = checks.judge(check, replace(FENCED, held={check.rights[-1]}))
    assert outcome.verdict is Verdict.FAILED
    assert str(check.rights[-1]) in outcome.words


@pytest.mark.parametrize("key", sorted(REFUSALS), ids=lambda key: f"{key[0]}-{key[1]}")
def test_one_thing_accepted_fails_its_check_alone(key: tuple[str, int]) -> None:
    assert not_passed(replace(FENCED, refusals={**REFUSALS, key: None})) == {key[0]: Verdict.FAILED}


@pytest.mark.parametrize("key", sorted(REFUSALS), ids=lambda key: f"{key[0]}-{key[1]}")
def test_a_refusal_for_another_reason_proves_nothing(key: tuple[str, int]) -> None:
    refusals = {**REFUSALS, key: "exceeded quota: pods"}
    assert not_passed(replace(FENCED, refusals=refusals)) == {key[0]: Verdict.NOT_CHECKED}


def test_where_policies_are_not_evaluated_only_what_they_alone_hold_is_not_checked() -> None:
    accepted = {("always-pull", 0): None, ("node-port", 0): None}
    found = replace(FENCED, evaluates_policies=False, refusals={**REFUSALS, **accepted})
    assert not_passed(found) == dict.fromkeys(("always-pull", "node-port"), Verdict.NOT_CHECKED)
    pod = {("host-path", 0): None}
    assert not_passed(replace(found, refusals={**REFUSALS, **pod})) == {"host-path": Verdict.FAILED}


def test_where_even_a_plain_pod_is_refused_pods_prove_nothing() -> None:
    found = not_passed(replace(FENCED, control="failed calling webhook"))
    assert set(found.values()) == {Verdict.NOT_CHECKED}
    assert {"host-path", "non-root", "always-pull"} <= set(found)
    assert not {"cluster-resources", "quotas", "bindings"} & set(found)


@pytest.mark.parametrize(
    ("kind", "key"),
    [("ResourceQuota", "quotas"), ("LimitRange", "object-limits"), ("NetworkPolicy", "network")],
)
def test_what_must_stand_and_does_not_fails(kind: str, key: str) -> None:
    assert not_passed(replace(FENCED, listed={**LISTED, kind: []})) == {key: Verdict.FAILED}


def test_a_binding_to_a_foreign_role_fails() -> None:
    foreign = {"metadata": {"name": "by-hand"}, "roleRef": {"name": "edit"}}
    found = replace(FENCED, listed={**LISTED, "RoleBinding": [*LISTED["RoleBinding"], foreign]})
    assert not_passed(found) == {"bindings": Verdict.FAILED}


def test_every_attempt_on_pods_is_the_plain_one_with_one_thing_wrong() -> None:
    plain = checks.plain_pod(SPACE)
    tried: list[Attempt] = [attempt for check in CHECKS for attempt in check.attempts]
    pods = [attempt.manifest for attempt in tried if attempt.manifest["kind"] == "Pod"]
    assert len(pods) > 8
    assert all(pod["metadata"] == plain["metadata"] and pod["spec"] != plain["spec"] for pod in pods)


def test_a_right_says_where_it_is_held() -> None:
    assert str(Right("list", "pods")) == "list pods"
    assert str(Right("list", "pods", namespace="speech")) == "list pods in speech"


def test_a_lead_and_a_platform_engineer_ask_and_a_member_does_not(cast: Cast) -> None:
    for person in (cast.leon, cast.petra):
        Tenant.objects.filter(pk=cast.vision.pk).update(attestation_due_at=None)
        row = attestation_requests.ask(actor=as_actor(person), tenant=cast.vision, now=NOW)
        assert row.attestation_due_at == NOW
    with pytest.raises(NotAllowed):
        attestation_requests.ask(actor=as_actor(cast.rosa), tenant=cast.vision, now=NOW)
    assert AuditEvent.objects.filter(action="tenant.attest").count() == 2


@pytest.mark.both_databases
def test_a_check_whose_hint_was_lost_is_woken_again(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[tuple[str, str]] = []
    monkeypatch.setattr(wake, "hint", lambda owner, pk, **_how: woken.append((owner, str(pk))))
    Tenant.objects.filter(pk=cast.vision.pk).update(attestation_due_at=timezone.now() - timedelta(hours=1))
    attestation_requests.hint_due()
    assert woken == [("attestation", str(cast.vision.pk))]


def test_asking_while_one_is_due_records_nothing_more(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    attestation_requests.ask(actor=petra, tenant=cast.vision, now=NOW)
    row = attestation_requests.ask(actor=petra, tenant=cast.vision, now=NOW + timedelta(minutes=1))
    assert row.attestation_due_at == NOW
    assert AuditEvent.objects.filter(action="tenant.attest").count() == 1


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Running]:
    running = start(tmp_path / "sandbox", "--fleet", "laptop")
    yield running
    running.stop()


@pytest.mark.programs
@pytest.mark.django_db(transaction=True)
def test_the_sandbox_says_what_it_cannot_check_and_passes_the_rest(sandbox: Running) -> None:
    """It keeps policies without evaluating them: what they alone hold is never reported as passed."""
    root, now, tag = system_actor("test"), timezone.now(), uuid4().hex[:6]
    path = str(sandbox.kubeconfig)
    cluster = Cluster.objects.create(slug=tag, name="Sandbox", kubeconfig_path=path)
    department = tenancy.create_department(
        actor=root, slug=f"d-{tag}", name="Research", cluster=cluster, now=now
    )
    tenant = tenancy.create_tenant(
        actor=root, slug=f"t-{tag}", name="", department=department, trust_level=TrustLevel.STANDARD, now=now
    )
    reconcile_department(department.pk)
    reconcile_tenant(tenant.pk)
    found = probing.attest(tenant.pk, now=timezone.now())
    assert found is not None
    open_ones = {each["key"]: each["verdict"] for each in found.results if each["verdict"] != "passed"}
    assert open_ones == {"always-pull": "not_checked", "node-port": "not_checked"}
    assert (found.passed, found.failed, found.not_checked) == (16, 0, 2)
    assert Tenant.objects.get(pk=tenant.pk).attested_at is None, "what is not checked is not attested"
