"""A part refreshes alone: its DOM id, its partial, `?part=` and the live event share one name."""

import re

import pytest

from apps.accounts.models import User
from portal.pages.account.streams import may_hear_all
from tests.conftest import SignedIn, as_actor
from tests.pages.conftest import Scene

ASKED = {"HX-Request": "true"}


def urls(scene: Scene) -> dict[str, str]:
    return {
        "/": "needs mine balance",
        "/t/vision/": "needs worst quota who",
        "/t/vision/workloads/": "rows",
        "/t/vision/new/notebook/": "offers",
        scene.url(scene.running): "head why story cost use events",
        "/t/vision/usage/": "money use who heat findings",
        "/console/": "money needs worst who idle use",
        "/console/queue/": "rows",
        "/console/nodes/": "rows",
        "/console/nodes/gpu-01/": "rows",
    }


def test_each_part_answers_alone_and_names_itself(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.petra)
    for url, parts in urls(scene).items():
        for part in parts.split():
            answer = client.get(f"{url}?part={part}", headers=ASKED)
            shown = answer.content.decode().strip()
            assert answer.status_code == 200, (url, part)
            assert re.match(rf'<\w+ id="{part}" hx-get="{re.escape(url)}\?part={part}"', shown), (url, part)
            assert "<html" not in shown
            assert answer["Cache-Control"] == "no-store"
            assert "HX-Request" in answer["Vary"]


def test_each_part_stands_in_its_page_once(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.petra)
    for url, parts in urls(scene).items():
        shown = client.get(url).content.decode()
        for part in parts.split():
            assert shown.count(f'id="{part}"') == 1, (url, part)


def test_an_unknown_part_is_not_found(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.petra)
    for url in urls(scene):
        assert client.get(f"{url}?part=nothing", headers=ASKED).status_code == 404, url


def test_a_part_keeps_the_filters_of_its_page(scene: Scene, signed_in: SignedIn) -> None:
    shown = signed_in(scene.cast.rosa).get("/t/vision/workloads/?phase=Running&owner=me").content.decode()
    assert 'hx-get="/t/vision/workloads/?phase=Running&amp;owner=me&amp;part=rows"' in shown
    assert "rag-dev" in shown
    assert "next-one" not in shown


@pytest.mark.parametrize(
    ("who", "allowed"),
    [
        ("rosa", {"workload", "tenant", "user"}),
        ("otto", set()),
        ("petra", {"workload", "tenant", "console"}),
        ("ann", {"workload", "tenant", "console"}),
    ],
)
def test_only_what_one_sees_may_be_listened_to(scene: Scene, who: str, allowed: set[str]) -> None:
    user: User = getattr(scene.cast, who)
    topics = {
        "workload": f"workload:{scene.running.pk}",
        "tenant": "tenant:vision",
        "user": f"user:{scene.cast.rosa.pk}",
        "console": "console",
        "nonsense": "workload:nonsense",
        "star": "*",
    }
    heard = {name for name, topic in topics.items() if may_hear_all(as_actor(user), [topic])}
    assert heard == allowed


def test_one_topic_that_may_not_be_seen_refuses_the_whole_stream(scene: Scene, signed_in: SignedIn) -> None:
    address = f"/live/?on=tenant:vision&on=workload:{scene.other.pk}"
    assert signed_in(scene.cast.rosa).get(address).status_code == 404
    assert signed_in(scene.cast.rosa).get("/live/").status_code == 404
