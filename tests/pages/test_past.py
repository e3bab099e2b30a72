"""Until all of a simulated past is in, every page of the demo says how far it is."""

import pytest
from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache

from apps.metering.history.selectors import progress
from tests.conftest import SignedIn
from tests.pages.conftest import Scene

pytestmark = pytest.mark.django_db
SAYS = "The history is coming in, 40 %"


def test_pages_say_how_much_of_a_past_has_come_in(
    scene: Scene, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "demo", True)
    monkeypatch.setattr(progress, "cache", LocMemCache("past", {}))
    progress.note(40)
    for person, path in ((scene.cast.petra, "/console/"), (scene.cast.rosa, "/")):
        assert SAYS in signed_in(person).get(path).content.decode()
    monkeypatch.setattr(progress, "QUIET", -1)
    page = signed_in(scene.cast.rosa).get("/").content.decode()
    assert "The history is incomplete, it ended at 40 %" in page
    assert SAYS not in page
    progress.note(100)
    page = signed_in(scene.cast.rosa).get("/").content.decode()
    assert "The history is" not in page
