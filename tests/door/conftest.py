"""One house for the suite: starting it costs some seconds."""

from collections.abc import Iterator

import pytest

from tests.door.house import SLUGS, House, house
from tests.door.pod import Pod


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("door") / "home", {slug: Pod(slug) for slug in SLUGS}) as found:
        yield found
