"""REST of workloads: shapes, order of refusals, preconditions, repeats, dry runs, and hostile bodies."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from apps.quotas.models import Offer
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase
from tests.conftest import Cast, generation
from tests.workloads.rest import URL, Api, body, made, otto, rosa

__all__ = ["otto", "rosa"]

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_a_post_answers_the_whole_object_even_while_it_waits(rosa: Api) -> None:
    answer = rosa.call("post", body=body())
    found = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"{URL}/{found['id']}"
    assert generation(answer) == 1
    assert found.keys() == {
        "object", "id", "slug", "name", "tenant", "labels", "generation", "created_at", "updated_at",
        "created_by", "spec", "status",
    }  # fmt: skip
    assert found["status"].keys() >= {
        "phase", "observed_generation", "conditions", "placement", "queue", "endpoints", "countdown",
        "protected_until", "next_offer", "utilization", "cost",
    }  # fmt: skip
    assert (found["created_by"], found["status"]["phase"], found["spec"]["memory"]) == (
        "researcher",
        "Pending",
        "16Gi",
    )
    assert "eta" in found["status"]["queue"]
    assert rosa.call("get", f"/{found['id']}").json() == found


def test_lists_are_pages_and_filters_are_the_fields(rosa: Api) -> None:
    for slug in ("a", "b", "c"):
        rosa.call("post", body=body(slug))
    page = rosa.call("get", "?limit=2&include_total=true&sort=slug").json()
    assert ([item["slug"] for item in page["items"]], page["total"]) == (["a", "b"], 3)
    rest = rosa.client.get(page["next"]).json()
    assert ([item["slug"] for item in rest["items"]], rest["next"]) == (["c"], None)
    assert [
        i["slug"] for i in rosa.call("get", "?slug=b&phase=Pending,Running&tenant=vision").json()["items"]
    ] == ["b"]
    assert rosa.call("get", "?phase=Stopped").json()["items"] == []


def test_a_workload_whose_offer_is_sold_no_more_is_listed_with_it(rosa: Api, cast: Cast) -> None:
    made(rosa)
    Offer.objects.filter(pk=cast.offer.pk).update(deleted_at=timezone.now())
    (found,) = rosa.call("get").json()["items"]
    assert found["spec"]["offer"] == cast.offer.slug


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("?colour=red", "unknown_parameter"),
        ("?phase=Tired", "invalid_parameter"),
        ("?created_from=soon", "invalid_parameter"),
        ("?tenant=genomics", "invalid_parameter"),
    ],
)
def test_a_wrong_parameter_is_400(rosa: Api, query: str, code: str) -> None:
    answer = rosa.call("get", query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_foreign_and_unknown_ids_answer_the_same_bytes(rosa: Api, otto: Api) -> None:
    mine = made(rosa)["id"]
    foreign, unknown = otto.call("get", f"/{mine}"), otto.call("get", f"/{uuid4()}")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert otto.call("post", f"/{mine}/stop", {}).content == otto.call("post", "/nothing/stop", {}).content


def test_a_tenant_that_is_not_ones_own_is_an_unknown_reference(otto: Api) -> None:
    answer = otto.call("post", body=body())
    assert answer.status_code == 422
    assert answer.json()["errors"][0] == {
        "pointer": "#/tenant", "code": "reference_not_found", "detail": "There is no such tenant.",
    }  # fmt: skip


def test_an_auditor_sees_and_may_not(cast: Cast, rosa: Api) -> None:
    ann, mine = Api(cast.ann), made(rosa)["id"]
    assert ann.call("get", f"/{mine}").status_code == 200
    for method, path, given in (
        ("post", "", body("x")),
        ("post", f"/{mine}/stop", {}),
        ("delete", f"/{mine}", None),
    ):
        answer = ann.call(method, path, given)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


def test_a_token_without_the_scope_is_refused(cast: Cast) -> None:
    reader = Api(cast.rosa, scopes=["workloads:read"])
    assert reader.call("get").status_code == 200
    assert reader.call("post", body=body()).json()["code"] == "insufficient_scope"


def test_quota_that_can_never_fit_is_409_with_its_figures(rosa: Api) -> None:
    answer = rosa.call("post", body=body(count=9))
    found = answer.json()
    assert (answer.status_code, found["code"]) == (409, "quota_exceeded")
    assert found["quota"] == {
        "offer": "h100-1g-10gb",
        "requested": 9,
        "nominal_quota": 2,
        "borrowing_limit": 2,
    }


def test_not_waiting_at_all_is_409_when_it_does_not_fit(rosa: Api) -> None:
    assert rosa.call("post", body=body(max_wait_seconds=0)).json()["code"] == "does_not_fit_now"


def test_unknown_fields_are_named_with_the_nearest(rosa: Api) -> None:
    errors = rosa.call("post", body={**body(), "sped": 1}).json()["errors"]
    assert errors == [{"pointer": "#/sped", "code": "unknown_field", "detail": "Did you mean spec?"}]
    errors = rosa.call("post", body=body(ofer="x")).json()["errors"]
    assert errors == [{"pointer": "#/spec/ofer", "code": "unknown_field", "detail": "Did you mean offer?"}]


def test_the_same_key_makes_one_workload(rosa: Api) -> None:
    first = rosa.call("post", body=body(), Idempotency_Key="k1")
    again = rosa.call("post", body=body(), Idempotency_Key="k1")
    other = rosa.call("post", body=body("other"), Idempotency_Key="k1")
    assert (first.json(), again["Idempotency-Replayed"]) == (again.json(), "true")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Workload.objects.count() == 1


def test_a_dry_run_stores_nothing_and_says_price_fit_and_manifests(rosa: Api) -> None:
    answer = rosa.call("post", "?dry_run=true", body())
    found = answer.json()
    assert answer.status_code == 200
    assert found.keys() == {
        "dry_run",
        "result",
        "price",
        "fit",
        "queue",
        "manifests",
        "alternatives",
        "warnings",
    }
    assert found["price"]["hourly"] == {"amount": "0.42", "currency": "EUR"}
    assert found["fit"]["verdict"] == "waits"
    assert found["manifests"][-1]["kind"] == "Pod"
    owners = {manifest["metadata"]["labels"]["allotment.dev/uid"] for manifest in found["manifests"]}
    assert owners == {found["result"]["id"]}
    assert found["queue"]["eta"] is None
    assert Workload.objects.count() == 0
    assert rosa.call("post", "?dry_run=true", body(count=9)).status_code == 409


def test_changes_need_the_etag(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}"
    assert rosa.call("patch", path, {"name": "x"}).status_code == 428
    assert rosa.call("patch", path, {"name": "x"}, If_Match='"7"').status_code == 412
    changed = rosa.call("patch", path, {"name": "x"}, If_Match='"1"')
    assert (changed.status_code, generation(changed), changed.json()["name"]) == (200, 2, "x")
    assert rosa.call("delete", path).status_code == 428


def test_a_put_of_what_was_got_changes_nothing(rosa: Api) -> None:
    found = made(rosa)
    answer = rosa.call("put", f"/{found['id']}", found, If_Match='"1"')
    assert (answer.status_code, generation(answer)) == (200, 1)
    wrong = rosa.call("put", f"/{found['id']}", {**found, "tenant": "speech"}, If_Match='"1"').json()
    assert wrong["errors"][0]["code"] == "read_only_field"


def test_a_put_of_what_was_posted_changes_nothing(rosa: Api, cast: Cast) -> None:
    asked = body()
    for left_out in ("cpu", "memory"):
        asked["spec"].pop(left_out, None)
    found = rosa.call("post", body=asked).json()
    Workload.objects.update(phase=Phase.RUNNING)
    for offer in (cast.offer.slug, str(cast.offer.pk)):
        again = {"spec": {**asked["spec"], "offer": offer}, "name": "nb-ada"}
        answer = rosa.call("put", f"/{found['id']}", again, If_Match="*")
        assert (answer.status_code, generation(answer)) == (200, 1)


def test_a_patch_merges_into_the_spec(rosa: Api) -> None:
    found = made(rosa, env={"A": "1", "B": "2"})
    patch = {"spec": {"memory": "8Gi", "env": {"A": None}}}
    spec = rosa.call("patch", f"/{found['id']}", patch, If_Match="*").json()["spec"]
    assert (spec["memory"], spec["env"], spec["cpu"]) == ("8Gi", {"B": "2"}, "2")


def test_stop_and_resume_turn_the_suspension(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}"
    stopped = rosa.call("post", f"{path}/stop", {"reason": "done"})
    assert (stopped.status_code, generation(stopped)) == (202, 2)
    assert (stopped.json()["spec"]["suspend"], stopped.json()["status"]["phase"]) == (True, "Stopping")
    resumed = rosa.call("post", f"{path}/resume", {})
    assert (resumed.status_code, resumed.json()["status"]["phase"]) == (202, "Pending")


def test_an_extension_answers_the_later_end(rosa: Api) -> None:
    found, now = made(rosa), timezone.now()
    path = f"/{found['id']}/extend"
    assert rosa.call("post", path, {"seconds": 60}).json()["code"] == "wrong_phase"
    Workload.objects.update(phase=Phase.RUNNING, started_at=now, stops_at=now + timedelta(hours=1))
    answer = rosa.call("post", path, {"seconds": 3600})
    countdown = answer.json()["status"]["countdown"]
    assert answer.status_code == 200
    assert countdown["stops_at"] == (now + timedelta(hours=2)).isoformat().replace("+00:00", "Z")
    assert (countdown["reason"], countdown["evidence"]) == ("MaxRunTime", None)
    too_far = rosa.call("post", path, {"seconds": 400 * 24 * 3600 // 2}).json()
    assert (too_far["code"], "extendable_until" in too_far) == ("extension_limit", True)
    for seconds in (0, -1, 1.5, "x", 10**12, None):
        assert rosa.call("post", path, {"seconds": seconds}).status_code == 422


def test_a_deletion_is_202_and_then_404(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}"
    answer = rosa.call("delete", f"{path}?keep_volumes=true", If_Match="*")
    assert (answer.status_code, answer.json()["status"]["phase"]) == (202, "Deleting")
    assert Workload.objects.get().keep_volumes
    Workload.objects.update(deleted_at=timezone.now())
    assert rosa.call("get", path).status_code == 404


def test_a_duplicate_is_a_new_workload(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}"
    answer = rosa.call("post", f"{path}/duplicate", {"slug": "copy", "spec": {"memory": "8Gi"}})
    assert answer.status_code == 201
    assert (answer.json()["slug"], answer.json()["spec"]["memory"]) == ("copy", "8Gi")
    assert answer["Location"] == f"{URL}/{answer.json()['id']}"


def test_a_rehearsed_duplicate_says_what_it_would_cost_and_is_nowhere(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}"
    answer = rosa.call("post", f"{path}/duplicate?dry_run=true", {"slug": "copy"})
    assert (answer.status_code, answer.has_header("Location")) == (200, False)
    assert answer.json()["price"]["hourly"]["amount"] == "0.42"
    assert answer.json()["fit"]["verdict"] == "waits"
    assert answer.json()["manifests"][-1]["kind"] == "Pod"
    assert Workload.objects.count() == 1


def test_dry_runs_of_actions_change_nothing(rosa: Api) -> None:
    found = made(rosa)
    path = f"/{found['id']}"
    for answer in (
        rosa.call("post", f"{path}/stop?dry_run=true", {}),
        rosa.call("patch", f"{path}?dry_run=true", {"name": "x"}, If_Match="*"),
        rosa.call("delete", f"{path}?dry_run=true", If_Match="*"),
    ):
        assert (answer.status_code, answer.json()["dry_run"]) == (200, True)
    assert rosa.call("get", path).json()["generation"] == 1


def test_events_and_manifests_are_readable(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}"
    (event,) = rosa.call("get", f"{path}/events").json()["items"]
    assert event.keys() == {"at", "source", "type", "reason", "message"}
    assert WorkloadEvent.objects.count() == 1
    items = rosa.call("get", f"{path}/manifests").json()["items"]
    text = rosa.call("get", f"{path}/manifests", Accept="application/yaml")
    assert text["Content-Type"].startswith("application/yaml")
    assert text.content.decode().count("apiVersion") >= len(items)


def test_logs_of_what_never_ran_are_a_clear_refusal(rosa: Api) -> None:
    path = f"/{made(rosa)['id']}/logs"
    assert rosa.call("get", path).json()["code"] == "wrong_phase"
    assert rosa.call("get", f"{path}?pod=another").status_code == 404
    assert rosa.call("get", f"{path}?tail=0").json()["code"] == "invalid_parameter"


HOSTILE: dict[str, Callable[[], Any]] = {
    "a list": list,
    "no spec": lambda: {"tenant": "vision"},
    "spec is text": lambda: {"tenant": "vision", "spec": "x"},
    "spec is null": lambda: {"tenant": "vision", "spec": None},
    "tenant is an object": lambda: {**body(), "tenant": {"a": 1}},
    "labels is a list": lambda: {**body(), "labels": []},
    "a label is an object": lambda: {**body(), "labels": {"a": {"b": 1}}},
    "labels of the queue": lambda: {**body(), "labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
    "slug of 64": lambda: body("a" * 64),
    "slug with dots": lambda: body("a..b"),
    "slug reserved": lambda: body("kube-system"),
    "slug punycode": lambda: body("xn--a-.b"),
    "slug rtl": lambda: body("a\u202eb"),
    "slug emoji": lambda: body("🦄"),
    "name with NUL": lambda: {**body(), "name": "a\x00b"},
    "name too long": lambda: {**body(), "name": "a" * 121},
    "name with escape": lambda: {**body(), "name": "\x1b[31m"},
    "count 2^63": lambda: body(count=2**63),
    "count -1": lambda: body(count=-1),
    "count true": lambda: body(count=True),
    "memory NaN": lambda: body(memory="NaN"),
    "memory digits": lambda: body(memory="١Gi"),
    "cpu 1e309": lambda: body(cpu="1e309"),
    "env name with =": lambda: body(env={"A=B": "x"}),
    "env surrogate": lambda: body(env={"A": "\ud800"}),
    "env value number": lambda: body(env={"A": 1}),
    "image spaces": lambda: body(image="a b"),
    "image metadata": lambda: body(image="169.254.169.254/latest"),
    "offer text": lambda: body(offer="' OR 1=1"),
    "offer list": lambda: body(offer=["a"]),
    "volume up": lambda: body(volumes=[{"name": "a", "size": "1Gi", "mount_path": "/a/../../etc"}]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_with_a_pointer(rosa: Api, name: str) -> None:
    rosa.client.raise_request_exception = False
    answer = rosa.call("post", body=HOSTILE[name]())
    assert answer.status_code in (400, 422)
    assert answer["Content-Type"] == "application/problem+json"
    if answer.status_code == 422:
        assert all(error["pointer"].startswith("#/") for error in answer.json()["errors"])
        assert answer.json()["errors"]
    assert Workload.objects.count() == 0


@pytest.mark.parametrize("name", ["{{7*7}}", "<svg onload=alert(1)>", "hx-get", "Ünïcode 🦄", "a in (b),c"])
def test_strange_names_are_stored_as_they_are(rosa: Api, name: str) -> None:
    answer = rosa.call("post", body={**body(), "name": name})
    assert (answer.status_code, answer.json()["name"]) == (201, name)


def test_hostile_paths_are_404(rosa: Api) -> None:
    rosa.client.raise_request_exception = False
    for path in ("/..%2f", "/%00", "/1", "/" + "a" * 500, "/None", "/%F0%9F%A6%84"):
        assert rosa.call("get", path).status_code == 404


def array_of(rosa: Api, **changes: Any) -> Workload:
    spec = {"kind": "job", "image": "python:3.13", "command": ["true"], "notebook": None}
    answer = rosa.call(
        "post", body=body("fold", **spec, volumes=[], job={"completions": 20, "parallelism": 4})
    )
    assert answer.status_code == 201, answer.content
    Workload.objects.filter(pk=answer.json()["id"]).update(**changes)
    return Workload.objects.get(pk=answer.json()["id"])


def test_an_array_says_how_far_it_is(rosa: Api) -> None:
    row = array_of(rosa)
    items = rosa.call("get", f"/{row.pk}").json()["status"]["items"]
    assert items == {
        "total": 20, "done": 0, "failed": 0, "left": 20, "done_items": "", "failed_items": "",
    }  # fmt: skip
    Workload.objects.update(items={"total": 20, "done": "0-2,4", "failed": "3"})
    items = rosa.call("get", f"/{row.pk}").json()["status"]["items"]
    assert (items["done"], items["failed"], items["left"]) == (4, 1, 15)
    assert (items["done_items"], items["failed_items"]) == ("0-2,4", "3")
    assert made(rosa)["status"]["items"] is None


def test_what_failed_of_an_array_runs_again(rosa: Api, otto: Api) -> None:
    items = {"total": 20, "done": "0-2,4-19", "failed": "3"}
    row = array_of(rosa, phase=Phase.FAILED, items=items)
    rehearsed = rosa.call("post", f"/{row.pk}/rerun-failed?dry_run=true", {}).json()
    assert rehearsed["result"]["spec"]["job"]["items"] == "3"
    assert Workload.objects.count() == 1
    answer = rosa.call("post", f"/{row.pk}/rerun-failed", {"slug": "fold-again"}, Idempotency_Key="once")
    again = rosa.call("post", f"/{row.pk}/rerun-failed", {"slug": "fold-again"}, Idempotency_Key="once")
    assert (answer.status_code, again.json()["id"]) == (201, answer.json()["id"])
    assert answer.json()["slug"] == "fold-again"
    assert answer.json()["spec"]["job"]["completions"] == 1
    assert otto.call("post", f"/{row.pk}/rerun-failed", {}).status_code == 404


def test_an_array_that_has_not_failed_has_nothing_to_run_again(rosa: Api) -> None:
    row = array_of(rosa, items={"total": 20, "done": "0-18", "failed": "19"})
    answer = rosa.call("post", f"/{row.pk}/rerun-failed", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_phase")
