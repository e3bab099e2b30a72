"""A tenant's queues as checks make them, and what they ask of the workloads in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contract.answers import Answer, Body, conditions, dig
from tests.contract.api import Api
from tests.contract.manifests import job

MANAGED = {"allotment.dev/managed": "true"}
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
JOB_UID = "kueue.x-k8s.io/job-uid"
# Long enough to outlive every check, short enough for a cluster that is thrown away.
LONG = 300
_MADE = "metadata.creationTimestamp"


class Tenant:
    """One namespace with one LocalQueue `lq` on one ClusterQueue over `resource`."""

    def __init__(
        self,
        api: Api,
        nominal: str | None = "1",
        *,
        word: str = "a",
        resource: str = "cpu",
        limits: Body | None = None,
        flavor: str | None = None,
        **spec: Any,
    ) -> None:
        self.api = api
        self.resource = resource
        self.queue = api.name(f"{word}-queue")
        self.flavor = flavor or api.name(f"{word}-flavor")
        self.ns = api.namespace(word, MANAGED)
        if flavor is None:
            made = api.create("resourceflavors", {"metadata": {"name": self.flavor}})
            assert made.status == 201, made.body
        quota = {"name": resource, "nominalQuota": nominal, **(limits or {})}
        group = {"coveredResources": [resource], "flavors": [{"name": self.flavor, "resources": [quota]}]}
        body = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        made = api.create("clusterqueues", {"metadata": {"name": self.queue}, "spec": body})
        assert made.status == 201, made.body
        local = {"metadata": {"name": "lq"}, "spec": {"clusterQueue": self.queue}}
        assert api.create("localqueues", local, ns=self.ns).status == 201
        self.ready()

    def ready(self) -> None:
        """Wait until both queues say that they are active."""
        active: Callable[[Body], bool] = lambda body: conditions(body).get("Active") == "True"  # noqa: E731
        self.api.wait("clusterqueues", self.queue, active)
        self.api.wait("localqueues", "lq", active, ns=self.ns)

    def job(
        self, name: str, size: str = "1", *, seconds: float = LONG, priority: str = "", **more: Any
    ) -> Answer:
        """Queue a Job that asks for so much of the tenant's resource."""
        labels = {QUEUE: more.pop("queue", "lq"), **({PRIORITY: priority} if priority else {})}
        resources = more.pop("resources", {self.resource: size})
        answer = self.api.create(
            "jobs", job(name, seconds=seconds, labels=labels, resources=resources, **more), ns=self.ns
        )
        assert answer.status == 201, answer.body
        return answer

    def workload(self, owner: str, reached: Callable[[Body], Any], seconds: float = 30.0) -> Body:
        """The Workload that Kueue keeps for an owner, once it is as wanted."""
        last: list[Body] = []

        def found() -> Body | None:
            items = self.api.list("workloads", ns=self.ns).body["items"]
            last[:] = [item for item in items if owner in _owners(item)]
            return last[0] if last and reached(last[0]) else None

        try:
            return dict(self.api.until(found, seconds))
        except AssertionError as error:
            raise AssertionError(f"workload of {owner}: {[item.get('status') for item in last]}") from error

    def admitted(self, owner: str) -> Body:
        """The Workload once it is admitted."""
        return self.workload(owner, lambda body: conditions(body).get("Admitted") == "True")

    def waiting(self, owner: str) -> dict[str, Any]:
        """Why the Workload has no quota; asked again until Kueue has said it."""
        body = self.workload(owner, lambda found: conditions(found).get("QuotaReserved") == "False")
        return dict(conditions(body, "reason", "message")["QuotaReserved"])

    def pending(self, count: int) -> Body:
        """The ClusterQueue once so many workloads wait."""
        return self.api.wait(
            "clusterqueues", self.queue, lambda body: body["status"].get("pendingWorkloads", 0) == count
        )

    def next_second(self, owner: str) -> None:
        """Wait until the second of a workload's creation is over: within one, chance decides the order."""
        made = self.workload(owner, bool)["metadata"]["creationTimestamp"]
        probe = {"metadata": {"generateName": "probe-"}}
        self.api.until(
            lambda: self.api.create("configmaps", probe, ns=self.ns, dryRun="All").get(_MADE) > made
        )

    def is_admitted(self, owner: str) -> bool:
        """Whether the Workload is admitted now."""
        items = self.api.list("workloads", ns=self.ns).body["items"]
        return any(owner in _owners(item) and conditions(item).get("Admitted") == "True" for item in items)


def priority(api: Api, word: str, value: int) -> str:
    """A priority class of the check's own; its name."""
    name = api.name(word)
    answer = api.create("workloadpriorityclasses", {"metadata": {"name": name}, "value": value})
    assert answer.status == 201, answer.body
    return name


def told(body: Body) -> dict[str, Any]:
    """All conditions with reason and message."""
    return conditions(body, "reason", "message")


def usage(body: Body, field: str = "flavorsReservation") -> Any:
    """What a queue's status says of its flavors."""
    return dig(body, f"status.{field}")


def _owners(item: Body) -> list[str]:
    return [owner["name"] for owner in item["metadata"].get("ownerReferences", [])]
