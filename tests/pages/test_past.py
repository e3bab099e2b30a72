"""While a simulated past comes in, every page of the demo says how far it is."""

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
    progress.note(100)
    assert "The history is coming in" not in signed_in(scene.cast.rosa).get("/").content.decode()
