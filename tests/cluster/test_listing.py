"""A list that comes page by page from the sandbox: what a change or a lost snapshot in its middle does."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from apps.cluster.gateway import client
from apps.cluster.gateway.port import Gateway, open_gateway
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject, WatchPosition
from apps.cluster.objects import names
from apps.cluster.specs import ObjectRef
from tests.cluster.reading import Reading
from tests.sandbox.running import Running, start

pytestmark = pytest.mark.programs

SPACE = "default"


class Shelf:
    """ConfigMaps of one row in a sandbox, and what the mirror says of them."""

    def __init__(self, running: Running) -> None:
        self.running, self.row = running, str(uuid4())
        self.cluster = Cluster.objects.create(slug="shelf", name="S", kubeconfig_path=str(running.kubeconfig))
        self.gateway: Gateway = open_gateway(self.cluster)
        self.hand: Gateway = client.for_kubeconfig(str(running.admin))

    def put(self, letters: str) -> None:
        labels = names.owner_labels(owner="workload", uid=self.row, tenant="vision")
        for letter in letters:
            metadata = {"name": letter, "namespace": SPACE, "labels": labels}
            self.hand.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def take(self, letter: str) -> None:
        ref = ObjectRef("ConfigMap", SPACE, letter)
        live = self.hand.get(ref)
        assert live is not None
        assert self.hand.delete(ref, uid=live["metadata"]["uid"])

    def forget_the_past(self) -> None:
        assert self.running.call("POST", "/sandbox/faults", {"kind": "compact"}).status_code == 200

    def mirrored(self) -> str:
        return "".join(sorted(ref.name for ref in mirror_table.observed_for(self.row)))

    def read(self) -> Reading:
        return Reading(self.cluster, self.gateway, "ConfigMap")


@pytest.fixture
def shelf(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setattr(client, "_PAGE", 3)
    running = start(tmp_path)
    made = Shelf(running)
    made.put("abcdefgh")
    first = made.read()
    assert first.rest() == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    first.end()
    yield made
    running.stop()


def test_only_the_last_page_says_what_is_gone_and_where_the_watch_goes_on(shelf: Shelf) -> None:
    shelf.take("b")
    before = WatchPosition.objects.get().resource_version
    reading = shelf.read()

    first = reading.page()
    shelf.put("0")  # after the snapshot, and before the place where the list is now
    shelf.take("h")
    assert reading.write(first) == ["a", "c", "d"]
    second = reading.page()
    assert shelf.mirrored() == "abcdefgh"
    assert WatchPosition.objects.get().resource_version == before

    assert reading.write(second) == ["e", "f", "g"]
    assert reading.rest() == [["h"]], "one snapshot from the first page to the last"
    assert shelf.mirrored() == "acdefgh"
    assert WatchPosition.objects.get().resource_version == first.version
    reading.end()


def test_a_snapshot_that_is_lost_in_the_middle_begins_anew_and_buries_nothing_by_mistake(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    reading = shelf.read()
    first = reading.page()
    shelf.take("a")
    shelf.put("z")
    shelf.forget_the_past()

    assert reading.write(first) == ["a", "b", "c"]
    assert not first.is_last
    anew = reading.page()

    assert [item["metadata"]["name"] for item in anew.items] == ["b", "c", "d"], "from the beginning"
    assert anew.earlier == set()
    assert anew.version != first.version
    assert shelf.mirrored() == "abcdefgh"
    reading.write(anew)
    assert reading.rest() == [["e", "f", "g"], ["h", "z"]]
    assert shelf.mirrored() == "bcdefghz"
    assert MirrorObject.objects.get(name="a").gone_at is not None
    assert "failed" not in caplog.text
    reading.end()
