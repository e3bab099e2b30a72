"""One house for the suite: starting it costs some seconds."""

from collections.abc import Iterator

import pytest

from tests.door.house import House, house
from tests.door.pod import Pod


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    own = ("mine", "shared", "lent", "leons", "llm")
    slugs = (*own, "stops", "goes", "leaves", "locked", "signs", "leads", "robs")
    with house(tmp_path_factory.mktemp("door") / "home", {slug: Pod(slug) for slug in slugs}) as found:
        yield found
