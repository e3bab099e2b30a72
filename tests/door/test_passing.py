"""What goes through a door that runs: bytes as they are, both ways, and nothing that is the portal's."""

import base64
import json
import os
from collections.abc import Callable, Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.door.house import House

pytestmark = pytest.mark.programs

MIB = 1024**2
BODY_MIB = int(os.environ.get("DOOR_BODY_MIB", "512"))


@pytest.fixture(scope="module")
def way(home: House) -> str:
    return home.enter("rosa", "mine")


def heard(answer: str) -> dict[str, str]:
    return {key.lower(): value for key, value in json.loads(answer)["heard"]}


def test_an_address_reaches_the_ide_as_it_was_written(home: House, way: str) -> None:
    told = home.ask("mine", "/a%2Fb//c%5B1%5D/?x=%20y&z=1+2", way=way).json()
    assert (told["path"], told["query"]) == ("/a%2Fb//c%5B1%5D/", "x=%20y&z=1+2")


def test_the_ide_hears_its_token_and_its_own_cookies_and_nothing_of_ours(home: House, way: str) -> None:
    theirs = "_xsrf=1; allotment_session=portal; __Host-allotment_session=portal; allotment_csrf=c"
    headers = {
        "Cookie": f"{theirs}; allotment_way={way}",
        "Authorization": "Bearer somebody",
        "X-Forwarded-For": "1.2.3.4",
        "X-Forwarded-Host": "portal",
        "Connection": "x-mine",
        "X-Mine": "1",
    }
    told = heard(home.ask("mine", "/lab", headers=headers).text)
    assert told["cookie"] == "_xsrf=1"
    assert told["authorization"].startswith("token ")
    assert len(told["authorization"]) == len("token ") + 64
    assert told["host"] == told["x-forwarded-host"] == home.host("mine")
    assert not {"x-forwarded-for", "x-mine"} & set(told)


def test_every_workload_has_a_token_of_its_own(home: House, way: str) -> None:
    other = home.enter("rosa", "shared")
    tokens = [
        heard(home.ask(slug, "/x", way=known).text)["authorization"]
        for slug, known in (("mine", way), ("shared", other))
    ]
    assert len(set(tokens)) == 2


def test_cookies_stay_on_the_host_and_what_concerns_one_hop_ends_here(home: House, way: str) -> None:
    answer = home.ask("mine", "/cookies", way=way)
    assert answer.headers.get_list("set-cookie") == ["plain=1; Path=/", "wide=1; Path=/", "wider=1; path=/"]
    assert not {"x-secret", "keep-alive"} & set(answer.headers)


def test_a_part_of_a_file_and_its_date_go_through(home: House, way: str) -> None:
    answer = home.ask("mine", "/part", way=way, headers={"Range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"234")
    assert answer.headers["last-modified"] == "Mon, 23 Nov 2026 08:00:00 GMT"


@pytest.mark.exhaustive
def test_bodies_flow_both_ways_and_the_doors_memory_stays_flat(
    home: House, way: str, record_property: Callable[[str, object], None]
) -> None:
    home.ask("mine", "/down?mib=8", way=way)
    before = home.memory

    def pieces() -> Iterator[bytes]:
        for _ in range(BODY_MIB * 16):
            yield b"y" * 65536

    up = home.ask("mine", "/up", "POST", way=way, content=pieces())
    assert up.json() == {"size": BODY_MIB * MIB, "framing": "chunked"}
    headers = {"Host": home.host("mine"), "Cookie": f"allotment_way={way}"}
    address = f"http://127.0.0.1:{home.door}/down?mib={BODY_MIB}"
    with httpx.stream("GET", address, headers=headers, timeout=60, trust_env=False) as down:
        assert sum(map(len, down.iter_raw())) == BODY_MIB * MIB
    record_property("MiB each way", BODY_MIB)
    record_property("door's memory, MiB more", round((home.memory - before) / MIB, 1))
    assert home.memory - before < 32 * MIB


def test_a_socket_carries_text_and_bytes_and_the_chosen_protocol(home: House, way: str) -> None:
    with home.socket("mine", way, subprotocols=["v1.kernel.websocket.jupyter.org"]) as socket:
        told = json.loads(socket.recv())
        assert told["authorization"].startswith("token ")
        assert "cookie" not in told
        assert told["origin"] == home.origin("mine")
        assert socket.subprotocol == "v1.kernel.websocket.jupyter.org"
        for sent in ("text", base64.b64decode("AAEC/w=="), "x" * MIB):
            socket.send(sent)
            assert socket.recv() == sent


def test_a_pod_that_does_not_answer_is_said_in_words(home: House) -> None:
    way = home.enter("leon", "leons")
    home.pods["leons"].__exit__()
    answer = home.ask("leons", "/", way=way)
    assert answer.status_code == 502
    assert "does not answer" in answer.text
    with pytest.raises(InvalidStatus):
        home.socket("leons", way)
