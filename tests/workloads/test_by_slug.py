"""A workload by its slug: found, changed and deleted with `?tenant=`, and made by PUT where there is none."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from apps.audit.models import AuditEvent
from apps.workloads.models import Workload, WorkloadEvent
from tests.conftest import Cast, generation
from tests.factories import notebook_body
from tests.workloads.rest import Api, made, otto, rosa

__all__ = ["otto", "rosa"]
PATH = "/nb-ada?tenant=vision"
BODY = {"spec": notebook_body()}
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def codes(answer: Any) -> Any:
    told = answer.json()
    return (answer.status_code, told["code"], *((e["pointer"], e["code"]) for e in told["errors"]))


def test_a_put_of_a_new_slug_makes_it_and_again_changes_nothing(rosa: Api) -> None:
    first = rosa.call("put", PATH, BODY)
    found = first.json()
    assert (first.status_code, generation(first)) == (201, 1)
    assert first["Location"] == f"/api/v1/workloads/{found['id']}"
    assert (found["slug"], found["name"], found["tenant"]) == ("nb-ada", "nb-ada", "vision")
    kept = (AuditEvent.objects.count(), WorkloadEvent.objects.count())
    for body in (BODY, {**BODY, "tenant": "vision", "slug": "nb-ada"}, found):
        again = rosa.call("put", PATH, body)
        assert (again.status_code, again.json(), again["ETag"]) == (200, found, first["ETag"])
    assert (AuditEvent.objects.count(), WorkloadEvent.objects.count()) == kept
    assert Workload.objects.count() == 1


def test_it_is_what_a_post_makes(rosa: Api) -> None:
    own = ("id", "slug", "name", "created_at", "updated_at")
    posted, put = (answer.json() for answer in (
        rosa.call("post", body={"tenant": "vision", "slug": "posted", **BODY}),
        rosa.call("put", "/put?tenant=vision", BODY),
    ))  # fmt: skip
    assert put["spec"] == posted["spec"]
    assert {k for k in put if put[k] != posted[k]} <= {*own, "status"}


def test_another_body_replaces_under_if_match_alone(rosa: Api) -> None:
    first = rosa.call("put", PATH, BODY)
    other = {**BODY, "name": "Ada"}
    assert codes(rosa.call("put", PATH, other)) == (428, "precondition_required")
    assert codes(rosa.call("put", PATH, other, If_Match='"7"')) == (412, "precondition_failed")
    changed = rosa.call("put", PATH, other, If_Match=first["ETag"])
    assert (changed.status_code, changed.json()["name"], generation(changed)) == (200, "Ada", 2)
    assert codes(rosa.call("put", PATH, BODY, If_Match=first["ETag"])) == (412, "precondition_failed")


def test_only_a_new_one_can_be_asked_for(rosa: Api) -> None:
    assert rosa.call("put", PATH, BODY, If_None_Match="*").status_code == 201
    assert codes(rosa.call("put", PATH, BODY, If_None_Match="*")) == (412, "precondition_failed")


@pytest.mark.parametrize("tag", ["*", '"1"'])
def test_what_is_not_there_matches_nothing(rosa: Api, tag: str) -> None:
    assert codes(rosa.call("put", PATH, BODY, If_Match=tag)) == (412, "precondition_failed")
    assert Workload.objects.count() == 0


@pytest.mark.parametrize("is_there", [False, True])
def test_the_body_may_not_say_another_place(rosa: Api, *, is_there: bool) -> None:
    if is_there:
        rosa.call("put", PATH, BODY)
    for name, value in (("tenant", "speech"), ("slug", "other"), ("slug", None)):
        wanted = (422, "validation_failed", (f"#/{name}", "read_only_field"))
        assert codes(rosa.call("put", PATH, {**BODY, name: value}, If_None_Match='"9"')) == wanted


def test_what_a_post_refuses_is_refused(rosa: Api, otto: Api, cast: Cast) -> None:
    assert codes(rosa.call("put", "/Nb?tenant=vision", BODY))[2] == ("#/slug", "invalid_value")
    assert codes(rosa.call("put", PATH, {"name": "Ada"}))[2] == ("#/spec", "required")
    assert codes(rosa.call("put", PATH, {"spec": notebook_body(count=9)}))[1] == "quota_exceeded"
    assert codes(otto.call("put", PATH, BODY)) == (404, "not_found")
    assert codes(Api(cast.ann).call("put", PATH, BODY)) == (403, "not_allowed")
    assert codes(Api(cast.rosa, scopes=["workloads:read"]).call("put", PATH, BODY))[1] == "insufficient_scope"
    assert Workload.objects.count() == 0


def test_a_rehearsal_stores_nothing(rosa: Api) -> None:
    answer = rosa.call("put", f"{PATH}&dry_run=true", BODY)
    assert (answer.status_code, answer.json()["fit"]["verdict"]) == (200, "waits")
    assert Workload.objects.count() == 0
    first = rosa.call("put", PATH, BODY)
    other = rosa.call("put", f"{PATH}&dry_run=true", {**BODY, "name": "Ada"}, If_Match=first["ETag"])
    assert (other.status_code, other.json()["result"]["name"]) == (200, "Ada")
    assert Workload.objects.get().name == "nb-ada"


def test_it_is_read_changed_and_deleted_by_its_slug(rosa: Api, otto: Api) -> None:
    found = made(rosa)
    assert rosa.call("get", PATH).json() == found
    assert rosa.call("get", f"/{found['id']}?tenant=vision").status_code == 404
    assert otto.call("get", PATH).content == otto.call("get", "/nb-ada?tenant=nowhere").content
    assert rosa.call("patch", PATH, {"name": "Ada"}, If_Match="*").json()["name"] == "Ada"
    assert rosa.call("delete", PATH, If_Match="*").status_code == 202


def test_a_slug_that_is_free_again_is_made_anew(rosa: Api) -> None:
    first = rosa.call("put", PATH, BODY).json()["id"]
    row = Workload.objects.get(pk=first)
    row.deleted_at = row.created_at
    row.save()
    again = rosa.call("put", PATH, BODY)
    assert (again.status_code, again.json()["id"] != first) == (201, True)


@pytest.mark.postgres
@pytest.mark.skipif(not settings.CONFIG.database_url, reason="needs PostgreSQL (ALLOTMENT_DATABASE_URL)")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("is_same", "others"), [(True, 200), (False, 428)])
def test_of_eight_at_once_one_makes_it(rosa: Api, *, is_same: bool, others: int) -> None:
    def send(number: int) -> int:
        try:
            body = BODY if is_same else {**BODY, "name": f"number {number}"}
            return int(rosa.call("put", PATH, body).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert Counter(pool.map(send, range(8))) == {201: 1, others: 7}
    assert Workload.objects.count() == 1
