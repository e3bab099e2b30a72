"""The story of docs/api.md, told with the generated client and nothing else.

Run as a program beside the generated package, with an address and a token. `mypy --strict`
has accepted it there: every member that it names is in the document.
"""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from allotment_client import AuthenticatedClient
from allotment_client.api.allocations import allocations_list
from allotment_client.api.costs import costs_retrieve
from allotment_client.api.me import me_retrieve
from allotment_client.api.offers import offers_list
from allotment_client.api.quotas import quotas_list
from allotment_client.api.workloads import (
    workloads_cost_retrieve,
    workloads_create,
    workloads_destroy,
    workloads_events_retrieve,
    workloads_extend_create,
    workloads_list,
    workloads_logs_retrieve,
    workloads_partial_update,
    workloads_resume_create,
    workloads_retrieve,
    workloads_stop_create,
    workloads_update,
)
from allotment_client.models import (
    AllocationPage,
    ChangedWorkloadRequest,
    Costs,
    Me,
    NewWorkloadRehearsal,
    NewWorkloadRequest,
    NotebookWish,
    OfferPage,
    PatchedPatchedWorkloadRequest,
    Problem,
    QuotaPage,
    Workload,
    WorkloadEventPage,
    WorkloadExtensionRequest,
    WorkloadPage,
    WorkloadReasonRequest,
    WorkloadWish,
)

TENANT, OFFER = "vision", "h100-3g-40gb"
Kind = TypeVar("Kind")


def a(kind: type[Kind], answer: object) -> Kind:
    """The answer as what it must be; a refusal says why it is none."""
    if not isinstance(answer, kind):
        raise TypeError(f"{answer} is no {kind.__name__}")
    return answer


def until(is_so: Callable[[], Kind | None], what: str, seconds: float = 300) -> Kind:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = is_so()
        if found is not None:
            return found
        time.sleep(0.25)
    raise TimeoutError(what)


def read(client: AuthenticatedClient, id_: str) -> Workload:
    return a(Workload, workloads_retrieve.sync(id_, client=client))


def reach(client: AuthenticatedClient, id_: str, phase: str) -> Workload:
    def there() -> Workload | None:
        now = read(client, id_)
        return now if now.status.phase == phase else None

    return until(there, f"{id_} to be {phase}")


def look_around(client: AuthenticatedClient) -> None:
    me = a(Me, me_retrieve.sync(client=client))
    assert me.tenants[TENANT] == "member"
    offers = a(OfferPage, offers_list.sync(client=client, tenant=TENANT))
    offer = next(each for each in offers.items if each.slug == OFFER)
    assert offer.status.allowed is True
    assert offer.status.free >= 0
    quotas = a(QuotaPage, quotas_list.sync(client=client, tenant=TENANT, include_total=True))
    assert quotas.total == len(quotas.items)
    assert OFFER in {quota.spec.offer for quota in quotas.items}
    gone = a(Problem, workloads_retrieve.sync("no-such", client=client))
    assert gone.code == "not_found"


def ask(client: AuthenticatedClient) -> str:
    wish = WorkloadWish(kind="notebook", offer=OFFER, memory="16Gi", notebook=NotebookWish(ide="jupyterlab"))
    body = NewWorkloadRequest(tenant=TENANT, slug="nb-client", spec=wish)
    rehearsed = a(NewWorkloadRehearsal, workloads_create.sync(client=client, body=body, dry_run=True))
    assert rehearsed.dry_run
    assert rehearsed.fit.verdict
    assert rehearsed.result.slug == "nb-client"
    assert rehearsed.price.hourly is not None
    assert rehearsed.manifests
    wrong = NewWorkloadRequest(tenant=TENANT, spec=WorkloadWish(kind="notebook", offer="no-such"))
    assert a(Problem, workloads_create.sync(client=client, body=wrong)).code == "validation_failed"
    made = workloads_create.sync_detailed(client=client, body=body, wait=30, idempotency_key="nb-client-1")
    again = workloads_create.sync_detailed(client=client, body=body, wait=30, idempotency_key="nb-client-1")
    workload = a(Workload, made.parsed)
    assert (made.status_code, made.headers["Location"]) == (201, f"/api/v1/workloads/{workload.id}")
    assert again.headers["Idempotency-Replayed"] == "true"
    return str(workload.id)


def watch(client: AuthenticatedClient, id_: str) -> None:
    running = reach(client, id_, "Running")
    assert running.status.placement[0].node
    assert running.status.countdown
    listed = a(WorkloadPage, workloads_list.sync(client=client, tenant=[TENANT], slug=["nb-client"]))
    assert [str(each.id) for each in listed.items] == [id_]
    events = a(WorkloadEventPage, workloads_events_retrieve.sync(id_, client=client))
    assert all(event.message for event in events.items)
    text = workloads_logs_retrieve.sync_detailed(id_, client=client, tail=10)
    assert text.status_code == 200
    a(str, text.parsed)
    longer = a(
        Workload,
        workloads_extend_create.sync(
            id_, client=client, body=WorkloadExtensionRequest(seconds=3600, reason="one more run")
        ),
    )
    assert longer.status.countdown
    before, after = running.status.countdown.stops_at, longer.status.countdown.stops_at
    assert after - before >= timedelta(hours=1)


def change(client: AuthenticatedClient, id_: str) -> None:
    shown = workloads_retrieve.sync_detailed(id_, client=client)
    tag = shown.headers["ETag"]
    same = workloads_retrieve.sync_detailed(id_, client=client, if_none_match=tag)
    assert same.status_code in (200, 304)  # its status may have moved
    name = PatchedPatchedWorkloadRequest(name="Ada, second try")
    patched = workloads_partial_update.sync_detailed(id_, client=client, body=name, if_match=tag)
    workload = a(Workload, patched.parsed)
    assert workload.name == "Ada, second try"
    stale = workloads_partial_update.sync(id_, client=client, body=name, if_match='"0"')
    assert a(Problem, stale).code == "precondition_failed"
    # What GET answers may be sent back as it is: nothing changes but what was written into it.
    body = ChangedWorkloadRequest.from_dict(workload.to_dict())
    body.name = "Ada, third try"
    put = workloads_update.sync_detailed(id_, client=client, body=body, if_match=patched.headers["ETag"])
    assert a(Workload, put.parsed).name == "Ada, third try"
    assert a(Workload, put.parsed).spec == workload.spec


def stop_and_resume(client: AuthenticatedClient, id_: str) -> None:
    lunch = WorkloadReasonRequest(reason="lunch")
    stopped = a(Workload, workloads_stop_create.sync(id_, client=client, body=lunch, wait=30))
    assert reach(client, str(stopped.id), "Stopped").status.placement == []
    a(Workload, workloads_resume_create.sync(id_, client=client, wait=30))
    reach(client, id_, "Running")


def count_up(client: AuthenticatedClient, id_: str) -> None:
    cost = a(Costs, workloads_cost_retrieve.sync(id_, client=client))
    assert cost.from_ <= cost.to
    a(Costs, costs_retrieve.sync(client=client, tenant=[TENANT]))
    allocated = a(AllocationPage, allocations_list.sync(client=client, workload=[UUID(id_)]))
    assert all(row.from_ for row in allocated.items)


def end(client: AuthenticatedClient, id_: str) -> None:
    gone = workloads_destroy.sync_detailed(id_, client=client, if_match="*", wait=30)
    assert gone.status_code in (202, 204)
    until(lambda: True if is_gone(client, id_) else None, "the notebook to be gone")


def is_gone(client: AuthenticatedClient, id_: str) -> bool:
    return workloads_retrieve.sync_detailed(id_, client=client).status_code == 404


def main(address: str, token: str) -> None:
    with AuthenticatedClient(base_url=address, token=token, httpx_args={"trust_env": False}) as client:
        look_around(client)
        id_ = ask(client)
        for chapter in (watch, change, stop_and_resume, count_up, end):
            chapter(client, id_)
            sys.stdout.write(f"{chapter.__name__}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
