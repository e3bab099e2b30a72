"""What the API and the home page ask of the database, on the scene of `make bench SUITE=api`.

Counted are statements and the rows that become objects: neither knows how busy the machine is.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.db.models import signals
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.rows import Row
from tests import factories
from tests.web import api_scene

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
STATEMENTS = {"me": 3, "offers": 13, "workloads": 20, "home": 27}
CREATE = {"postgresql": 26, "sqlite": 25}
"""Of `POST workloads` with an Idempotency-Key; SQLite, which has one writer, takes no lock of the key."""
"""RULE: a change may lower a number, and raises it only with its reason in the commit."""


@contextmanager
def objects_made() -> Iterator[Counter[str]]:
    """How many objects of each model: rows that were read tell no signal."""
    made: Counter[str] = Counter()

    def count(sender: Any, **_: Any) -> None:
        made[sender.__name__] += 1

    def counted(model: type[Row], *read: Any) -> Row:
        count(model)
        row: Row = from_db(model, *read)
        return row

    from_db = Row.__dict__["from_db"].__func__
    signals.post_init.connect(count)
    try:
        with patch.object(Row, "from_db", classmethod(counted)):
            yield made
    finally:
        signals.post_init.disconnect(count)


def asked(scene: api_scene.Scene) -> dict[str, tuple[int, Counter[str]]]:
    """Statements and objects of each kind of request, the second time: what is prepared is prepared."""
    bearer, cookie = {"Authorization": f"Bearer {scene.tokens[0]}"}, {"Cookie": scene.session}
    found = {}
    for name, headers, path in (
        ("me", bearer, "/api/v1/me"),
        ("offers", bearer, f"/api/v1/offers?tenant={scene.tenant.slug}"),
        ("workloads", bearer, "/api/v1/workloads"),
        ("home", cookie, "/"),
    ):
        client = Client(headers=headers)
        assert client.get(path).status_code == 200
        with CaptureQueriesContext(connection) as statements, objects_made() as made:
            client.get(path)
        found[name] = len(statements), made
    return found


def test_a_request_costs_the_same_statements_however_many_rows_it_shows() -> None:
    now = timezone.now()
    small = asked(api_scene.make(now, workloads=12, offers=6, mark="-s"))
    large = asked(api_scene.make(now, workloads=50, offers=12, mark="-l"))
    counted = {name: statements for name, (statements, _) in large.items()}
    assert counted == {name: statements for name, (statements, _) in small.items()}
    assert counted == STATEMENTS


def test_a_new_workload_costs_the_same_statements_however_many_there_are() -> None:
    scene = api_scene.make(timezone.now())
    bearer = {"Authorization": f"Bearer {scene.tokens[0]}"}
    counted = []
    for number in range(3):
        client = Client(headers=bearer | {"Idempotency-Key": f"key-{number}"})
        spec = factories.notebook_body(scene.offers[0].slug)
        body = {"tenant": scene.tenant.slug, "slug": f"new-{number}", "spec": spec}
        with CaptureQueriesContext(connection) as statements:
            made = client.post("/api/v1/workloads", body, content_type="application/json")
        assert made.status_code == 201, made.content
        # The test's own transaction is around that of the request.
        counted.append(len([each for each in statements if "SAVEPOINT" not in each["sql"]]))
        savepoints = len(statements) - counted[-1]
    assert counted[1:] == [CREATE[connection.vendor]] * 2
    assert savepoints == 2


def test_a_page_of_workloads_makes_an_object_per_row_and_one_of_what_rows_share() -> None:
    _, made = asked(api_scene.make(timezone.now()))["workloads"]
    waiting = len(range(1, 50, 3))
    running = len(api_scene.DEVICES)
    assert made["Workload"] == 50
    assert made["MirrorObject"] == waiting + running
    assert made["User"] == 2, "who asks, and the owner of every row"
    assert made["Tenant"] <= 6
    assert made["Offer"] <= 12 + 8


def test_who_sees_everything_pays_for_a_page_and_not_for_a_row() -> None:
    scene = api_scene.make(timezone.now())
    scene.user.platform_role = "platform"
    scene.user.save()
    (statements, _) = asked(scene)["workloads"]
    assert statements <= STATEMENTS["workloads"]
