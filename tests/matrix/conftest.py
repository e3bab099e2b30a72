"""One scene for each module of this suite."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.matrix.scene import Scene, open_scene


@pytest.fixture(scope="module")
def scene(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Scene]:
    with django_db_blocker.unblock(), open_scene() as made:
        yield made
