"""Somebody edits and deletes in a sandbox, over HTTPS and by the product's own rights: a check of the cluster
finds it, the reconcile's apply puts it back, and the book names field and manager.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.utils import timezone

from apps.cluster.gateway.port import Gateway, open_gateway
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, Drift, DriftCheck
from apps.cluster.objects import names
from apps.cluster.reconciling.rules.plan import Plan, Why, diff
from apps.cluster.reconciling.services import converge
from apps.cluster.specs import Manifest, ObjectRef
from apps.cluster.watching.services import drift_checks
from tests.sandbox.running import Running, start

pytestmark = pytest.mark.programs

SPACE, MERGE = "default", "application/merge-patch+json"
SERVICES = f"/api/v1/namespaces/{SPACE}/services"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = start(tmp_path)
    yield found
    found.stop()


class House:
    """A row with two services."""

    def __init__(self, running: Running) -> None:
        self.row, self.running = str(uuid4()), running
        self.cluster = Cluster.objects.create(slug="box", name="B", kubeconfig_path=str(running.kubeconfig))
        DriftCheck.objects.create(cluster=self.cluster)
        self.gateway: Gateway = open_gateway(self.cluster)

    def service(self, name: str) -> Manifest:
        labels = names.owner_labels(owner="workload", uid=self.row, tenant="vision")
        ports = [{"name": "ide", "port": 8888, "targetPort": 8888}]
        metadata = {"name": name, "namespace": SPACE, "labels": labels}
        spec = {"ports": ports, "selector": {"app": name}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    def plan(self) -> Plan:
        wanted = [self.service("one"), self.service("two")]
        return diff(wanted, mirror_table.observed_for(self.row), owner_id=self.row)

    def bring(self) -> converge.Outcome:
        return converge.run(self.gateway, self.cluster, self.plan(), now=timezone.now())

    def edit(self) -> None:
        """As `kubectl edit`: a port of ours, and a label and a port that are nobody's business of ours."""
        ports = [
            {"name": "ide", "port": 8888, "targetPort": 22},
            {"name": "more", "port": 9999, "targetPort": 9999},
        ]
        change = {"metadata": {"labels": {"team": "theirs"}}, "spec": {"ports": ports}}
        answer = self.running.call("PATCH", f"{SERVICES}/one?fieldManager=kubectl-edit", change, media=MERGE)
        assert answer.status_code == 200, answer.text


@pytest.fixture
def house(db: None, running: Running) -> House:
    made = House(running)
    assert made.bring().is_complete
    return made


def test_what_was_edited_and_deleted_is_found_put_back_and_named(house: House) -> None:
    house.edit()
    assert house.running.call("DELETE", f"{SERVICES}/two").status_code == 200
    assert house.plan().is_empty, "nobody watches here"

    drift_checks.run(house.cluster.pk)

    assert DriftCheck.objects.get().message == ""
    assert {step.why for level in house.plan().levels for step in level} == {Why.DRIFTED, Why.MISSING}
    assert house.bring().is_complete
    edited, gone = Drift.objects.order_by("name")
    assert (edited.name, edited.how, gone.name, gone.how) == ("one", "changed", "two", "missing")
    assert all((edited.healed_at, gone.healed_at))
    (field,) = edited.fields
    assert field["path"] == 'spec.ports[port=8888,protocol="TCP"].targetPort'
    assert (field["ours"], field["theirs"]) == ("8888", "22")
    assert (field["manager"], field["operation"]) == ("kubectl-edit", "Update")
    live = house.gateway.look(ObjectRef("Service", SPACE, "one"))
    assert live is not None
    assert [(port["port"], port["targetPort"]) for port in live["spec"]["ports"]] == [
        (8888, 8888),
        (9999, 9999),
    ]
    assert live["metadata"]["labels"]["team"] == "theirs", "what is not ours stays"


def test_a_look_tells_absence(house: House) -> None:
    assert house.gateway.look(ObjectRef("Service", SPACE, "nowhere")) is None


def test_what_only_others_own_is_no_drift(house: House) -> None:
    change = {"metadata": {"labels": {"team": "theirs"}}, "spec": {"sessionAffinity": "ClientIP"}}
    answer = house.running.call("PATCH", f"{SERVICES}/one?fieldManager=kubectl-edit", change, media=MERGE)
    assert answer.status_code == 200
    drift_checks.run(house.cluster.pk)
    assert house.plan().is_empty
    assert not Drift.objects.exists()
