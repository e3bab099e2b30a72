"""A real Envoy before the door, as Cilium's real controller has it lead by our routes.

What is alike in an nginx is tried in test_gateway.py; here is what a Gateway's own parts decide.
"""

import json
from collections.abc import Iterator
from functools import partial

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.controlplane.plane import ControlPlane
from tests.door import envoy, gateway
from tests.door.asks import raw, refused, stopped
from tests.door.endings import share_no_longer
from tests.door.house import SLUGS, WITHIN, House
from tests.door.pod import Pod
from tests.ports import free_port

pytestmark = [pytest.mark.plane, pytest.mark.exhaustive, pytest.mark.timeout(300)]
MIB, BODY_MIB = 1024**2, 64


@pytest.fixture(scope="module")
def home(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    pods, lead = {slug: Pod(slug) for slug in SLUGS}, partial(envoy.leading, control_plane)
    with gateway.behind(tmp_path_factory.mktemp("envoy"), pods, free_port(), lead=lead) as served:
        yield served


@pytest.fixture(scope="module")
def way(home: House) -> str:
    return home.enter("rosa", "mine")


def test_the_pod_hears_its_token_and_nothing_of_ours(home: House, way: str) -> None:
    """Where the door answers with an empty header, Envoy leads on an empty one."""
    headers = {"Cookie": f"_xsrf=1; allotment_way={way}; own=2", "Authorization": "Bearer somebody"}
    for sent, cookie in ((headers, "_xsrf=1; own=2"), ({"Cookie": f"allotment_way={way}"}, "")):
        answer = home.ask("mine", "/a?x=1", headers=sent).json()
        heard = [(name, text) for name, text in answer["heard"] if name in ("authorization", "cookie")]
        assert len(heard) == 2
        assert dict(heard)["cookie"] == cookie
        assert dict(heard)["authorization"].startswith("token ")
        assert (answer["path"], answer["query"]) == ("/a", "x=1")


def test_nobody_comes_in_without_a_way_into_this_workload(home: House, way: str) -> None:
    assert refused(home.ask("mine"), 401)
    assert refused(home.ask("mine", way="guessed"), 401)
    assert refused(home.ask("shared", way=way), 401)
    lines = [f"GET http://{home.host('shared')}/said HTTP/1.1", f"Host: {home.host('mine')}"]
    assert raw(home.front, *lines, f"Cookie: allotment_way={way}").split()[1] in (b"401", b"403")


@pytest.mark.parametrize("path", ["/", "/api/kernels", "/.allotmentx"])
def test_another_workloads_page_cannot_act_here(home: House, way: str, path: str) -> None:
    for headers in (
        {"Origin": home.origin("leons")},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Method": "GET"},
    ):
        assert refused(home.ask("mine", path, "POST", way=way, headers=headers), 403)
    own = {"Origin": home.origin("mine")}
    assert home.ask("mine", "/x", "POST", way=way, headers=own).status_code == 200


def test_bytes_pass_by_the_door_and_nobody_comes_in_while_it_does_not_answer(home: House, way: str) -> None:
    headers = {"Host": home.host("mine"), "Cookie": f"allotment_way={way}"}
    url = f"http://127.0.0.1:{home.front}/down?mib={BODY_MIB}"
    with httpx.stream("GET", url, headers=headers, timeout=60, trust_env=False) as down:
        pieces = down.iter_raw()
        size = len(next(pieces))
        with stopped(home):
            size += sum(map(len, pieces))
            assert refused(home.ask("mine", way=way), 403)
    assert size == BODY_MIB * MIB


@pytest.mark.parametrize("path", ["/.allotment/enter", "/.allotment/health"])
def test_the_doors_own_addresses_are_the_doors(home: House, way: str, path: str) -> None:
    answer, straight = (home.ask("mine", path, way=way, at=port) for port in (home.front, home.door))
    assert (answer.status_code, answer.text) == (straight.status_code, straight.text)
    assert "authorization" not in answer.headers


def test_a_socket_goes_through_the_door_or_nowhere(home: House, way: str) -> None:
    with home.socket("mine", way) as wire:
        assert json.loads(wire.recv())["authorization"].startswith("token ")
    lines = ["GET /ws HTTP/1.1", f"Host: {home.host('mine')}", f"Cookie: allotment_way={way}"]
    key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"
    assert raw(home.front, *lines, *key, "Upgrade: WebSocket").split()[1] == b"403"


def test_a_programs_token_opens_its_service_which_does_not_hear_it(home: House) -> None:
    token = {"Authorization": f"Bearer {home.stage['llm']['token']}"}
    answer = home.ask("llm", "/v1/chat/completions", "POST", headers=token, json={"model": "m"})
    assert answer.status_code == 200, answer.text
    assert dict(answer.json()["heard"])["authorization"] == ""
    assert refused(home.ask("mine", headers=token), 401)


def test_what_is_asked_after_the_right_has_ended_is_refused(home: House) -> None:
    way = home.enter("leon", "lent")
    assert "pod of" in home.ask("lent", way=way).text
    with home.socket("lent", way) as wire:
        assert wire.recv()
        assert share_no_longer(home).status_code < 400
        with pytest.raises(ConnectionClosed):
            wire.recv(timeout=WITHIN)
    assert home.ask("lent", way=way).status_code in (401, 403)
