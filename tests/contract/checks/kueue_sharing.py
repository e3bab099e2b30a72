"""Kueue: cohorts lend and borrow, owners take back by preemption, queues are stopped, positions are told."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Body, conditions, pick
from tests.contract.api import Api
from tests.contract.queues import Tenant, priority, told, usage

RECLAIM = {"reclaimWithinCohort": "Any"}
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"


def _pair(api: Api, first: Body | None = None, second: Body | None = None) -> tuple[Tenant, Tenant]:
    """Two tenants of one cohort over one flavor, each with one cpu of its own."""
    flavor, cohort = api.name("flavor"), api.name("cohort")
    api.create("resourceflavors", {"metadata": {"name": flavor}})
    parts = [dict(first or {}), dict(second or {})]
    made = [
        Tenant(api, part.pop("nominal", "1"), word=word, flavor=flavor, cohortName=cohort, **part)
        for word, part in zip("ab", parts, strict=True)
    ]
    return made[0], made[1]


def _evicted(tenant: Tenant, owner: str) -> Body:
    """Conditions of a workload that lost its quota, once Kueue has put it back."""
    body = tenant.workload(
        owner,
        lambda found: (
            conditions(found).get("QuotaReserved") == "False" and conditions(found).get("Evicted") == "True"
        ),
    )
    seen = told(body)
    return {name: seen.get(name) for name in ("Evicted", "Preempted", "Requeued")}


def check_a_queue_borrows_what_another_leaves(api: Api) -> Any:
    a, _ = _pair(api)
    a.job("one", "2")
    workload = a.admitted("one")
    queue = api.wait("clusterqueues", a.queue, lambda body: body["status"]["admittedWorkloads"] == 1)
    return {"told": told(workload)["QuotaReserved"], "usage": usage(queue)}


def check_borrowing_has_a_limit(api: Api) -> Any:
    a, _ = _pair(api, {"limits": {"borrowingLimit": "0"}})
    a.job("one", "2")
    return a.waiting("one")


def check_borrowing_within_the_limit_waits_for_room(api: Api) -> Any:
    a, _ = _pair(api, {"limits": {"borrowingLimit": "1"}}, {"nominal": "4"})
    a.job("one", "2")
    a.admitted("one")
    a.job("two")
    return a.waiting("two")


def check_lending_has_a_limit(api: Api) -> Any:
    a, _ = _pair(api, None, {"nominal": "2", "limits": {"lendingLimit": "1"}})
    a.job("one", "2")
    a.admitted("one")
    a.job("two")
    return a.waiting("two")


def check_what_a_cohort_owns_is_for_all(api: Api) -> Any:
    a, b = _pair(api)
    cohort = api.name("cohort")
    quota = {"name": "cpu", "nominalQuota": "1"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": a.flavor, "resources": [quota]}]}
    for tenant in (a, b):
        tenant.job("own")
        tenant.admitted("own")
    a.job("more")
    a.waiting("more")
    api.create("cohorts", {"metadata": {"name": cohort}, "spec": {"resourceGroups": [group]}})
    a.admitted("more")
    queue = api.wait("clusterqueues", a.queue, lambda body: body["status"]["admittedWorkloads"] == 2)
    return usage(queue)


def check_without_a_cohort_nothing_is_borrowed(api: Api) -> Any:
    a = Tenant(api, word="a")
    Tenant(api, word="b", flavor=a.flavor)
    a.job("one", "2")
    return a.waiting("one")


def check_an_owner_takes_back_what_it_lent(api: Api) -> Any:
    a, b = _pair(api, None, {"preemption": RECLAIM})
    a.job("borrower", "2")
    a.admitted("borrower")
    b.job("owner")
    workload = b.admitted("owner")
    held = api.wait("jobs", "borrower", lambda body: body["spec"]["suspend"], ns=a.ns)
    evicted = _evicted(a, "borrower")
    # The identifiers of who preempted whom are drawn by chance; the sentence around them counts.
    return {
        "evicted": evicted,
        "owner": told(workload)["QuotaReserved"],
        "suspended": held["spec"]["suspend"],
    }


def check_an_owner_that_may_not_preempt_waits(api: Api) -> Any:
    a, b = _pair(api)
    a.job("borrower", "2")
    a.admitted("borrower")
    b.job("owner")
    return b.waiting("owner")


def check_a_lower_priority_is_preempted_in_its_queue(api: Api) -> Any:
    high = priority(api, "high", 100)
    tenant = Tenant(api, preemption={"withinClusterQueue": "LowerPriority"})
    tenant.job("low")
    tenant.admitted("low")
    tenant.job("high", priority=high)
    tenant.admitted("high")
    return _evicted(tenant, "low")


def check_an_equal_priority_is_not_preempted(api: Api) -> Any:
    tenant = Tenant(api, preemption={"withinClusterQueue": "LowerPriority"})
    tenant.job("one")
    tenant.admitted("one")
    tenant.job("two")
    return {"told": tenant.waiting("two"), "first": tenant.is_admitted("one")}


def check_only_lower_priorities_are_taken_back(api: Api) -> Any:
    high = priority(api, "high", 100)
    a, b = _pair(api, None, {"preemption": {"reclaimWithinCohort": "LowerPriority"}})
    a.job("borrower", "2", priority=high)
    a.admitted("borrower")
    b.job("owner")
    return {"told": b.waiting("owner"), "borrower": a.is_admitted("borrower")}


def check_the_last_admitted_is_preempted_first(api: Api) -> Any:
    a, b = _pair(api, {"nominal": "0"}, {"nominal": "2", "preemption": RECLAIM})
    a.job("first")
    a.admitted("first")
    low = priority(api, "low", -1)
    a.job("second", priority=low)
    a.admitted("second")
    b.job("owner")
    b.admitted("owner")
    _evicted(a, "second")
    return a.is_admitted("first")


def check_a_held_queue_admits_nothing_new(api: Api) -> Any:
    tenant = Tenant(api, "2")
    tenant.job("one")
    tenant.admitted("one")
    api.patch("clusterqueues", tenant.queue, {"spec": {"stopPolicy": "Hold"}})
    queue = api.wait("clusterqueues", tenant.queue, lambda body: conditions(body)["Active"] == "False")
    local = api.wait("localqueues", "lq", lambda body: conditions(body)["Active"] == "False", ns=tenant.ns)
    tenant.job("two")
    reason = tenant.waiting("two")
    kept = tenant.is_admitted("one")
    api.patch("clusterqueues", tenant.queue, {"spec": {"stopPolicy": "None"}})
    tenant.admitted("two")
    return {"queue": told(queue), "local": told(local), "two": reason, "kept": kept}


def check_a_drained_queue_evicts(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    tenant.admitted("one")
    api.patch("clusterqueues", tenant.queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    evicted = _evicted(tenant, "one")
    api.wait("jobs", "one", lambda body: body["spec"]["suspend"], ns=tenant.ns)
    api.patch("clusterqueues", tenant.queue, {"spec": {"stopPolicy": "None"}})
    again = tenant.admitted("one")
    return {"evicted": evicted, "again": told(again).get("Requeued")}


def check_a_held_local_queue_admits_nothing_new(api: Api) -> Any:
    tenant = Tenant(api)
    api.patch("localqueues", "lq", {"spec": {"stopPolicy": "Hold"}}, ns=tenant.ns)
    local = api.wait("localqueues", "lq", lambda body: conditions(body)["Active"] == "False", ns=tenant.ns)
    tenant.job("one")
    reason = tenant.waiting("one")
    api.patch("localqueues", "lq", {"spec": {"stopPolicy": "None"}}, ns=tenant.ns)
    tenant.admitted("one")
    return {"local": told(local), "one": reason}


def check_a_drained_local_queue_evicts(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    tenant.admitted("one")
    api.patch("localqueues", "lq", {"spec": {"stopPolicy": "HoldAndDrain"}}, ns=tenant.ns)
    return _evicted(tenant, "one")


def check_more_quota_admits_who_waits(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", "2")
    tenant.waiting("one")
    groups = api.read("clusterqueues", tenant.queue).get("spec.resourceGroups")
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "2"
    answer = api.patch("clusterqueues", tenant.queue, {"spec": {"resourceGroups": groups}})
    tenant.admitted("one")
    return answer.status


def check_less_quota_keeps_who_runs(api: Api) -> Any:
    tenant = Tenant(api, "2")
    tenant.job("one", "2")
    tenant.admitted("one")
    groups = api.read("clusterqueues", tenant.queue).get("spec.resourceGroups")
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"
    api.patch("clusterqueues", tenant.queue, {"spec": {"resourceGroups": groups}})
    tenant.job("two")
    return {"told": tenant.waiting("two"), "kept": tenant.is_admitted("one")}


def _positions(answer: Body) -> list[Any]:
    fields = ("priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue")
    return [
        [item["metadata"]["name"], item["metadata"]["namespace"], pick(item, *fields)]
        for item in answer["items"]
    ]


def check_positions_of_those_who_wait_are_told(api: Api) -> Any:
    high = priority(api, "high", 10)
    tenant = Tenant(api)
    tenant.job("first")
    tenant.admitted("first")
    for count, (name, level) in enumerate((("one", ""), ("two", ""), ("urgent", high)), 1):
        tenant.job(name, priority=level)
        tenant.pending(count)
        tenant.next_second(name)
    path = f"{VISIBILITY}/clusterqueues/{tenant.queue}/pendingworkloads"
    local = f"{VISIBILITY}/namespaces/{tenant.ns}/localqueues/lq/pendingworkloads"
    answer = api.until(
        lambda: (found := api.request("GET", path)).status == 200 and len(found.body["items"]) == 3 and found
    )
    page = api.request("GET", path, params={"offset": "1", "limit": "1"})
    return {
        "kind": answer.pick("kind", "apiVersion"),
        "queue": _positions(answer.body),
        "page": _positions(page.body),
        "local": _positions(api.request("GET", local).body),
    }


def check_positions_of_an_absent_queue_are_not_found(api: Api) -> Any:
    answer = api.request("GET", f"{VISIBILITY}/clusterqueues/{api.name('absent')}/pendingworkloads")
    return [answer.status, answer.get("reason")]


def check_the_visibility_group_is_discovered(api: Api) -> Any:
    answer = api.request("GET", VISIBILITY)
    return sorted(
        (entry["name"], entry["kind"], entry["namespaced"])
        for entry in answer.body["resources"]
        if "/" in entry["name"]
    )
