"""A real nginx that follows our routes: it leads by itself to the pods what the door allows."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.exceptions import ConnectionClosed, InvalidStatus

from apps.tenants.specs import DOOR_NAMESPACE
from tests.door import gateway
from tests.door.asks import raw, refused, stopped
from tests.door.endings import TRIED, Act, by_token, change_role, revoke
from tests.door.gateway import DOOR, NAMESPACE, Manifest
from tests.door.house import SLUGS, WITHIN, House
from tests.door.pod import Pod
from tests.patience import until
from tests.ports import free_port

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not gateway.NGINX, reason="no nginx: install nginx-light as .ci/run does"),
]
MIB = 1024**2
BODY_MIB = 64
BEGUN = threading.Event()
HANDSHAKE = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"
MIRROR = {"type": "RequestMirror", "requestMirror": {}}
UNKNOWN: list[Manifest] = [{"method": "GET"}, {"queryParams": []}, {"path": {"type": "Exact", "value": "/"}}]


async def taken(request: Request) -> Response:
    """How many bytes came; it says in this process when it begins."""
    BEGUN.set()
    return JSONResponse({"size": sum([len(chunk) async for chunk in request.stream()])})


@pytest.fixture(scope="module")
def check() -> int:
    return free_port()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, check: int) -> Iterator[House]:
    pods = {slug: Pod(slug, [Route("/taken", taken, methods=["PUT"])]) for slug in SLUGS}
    with gateway.behind(tmp_path_factory.mktemp("gateway"), pods, check) as served:
        yield served


@pytest.fixture(scope="module")
def way(home: House) -> str:
    return home.enter("rosa", "mine")


def test_the_pod_hears_its_token_and_its_own_cookies_and_nothing_of_ours(home: House, way: str) -> None:
    theirs = "_xsrf=1; allotment_session=portal; __Host-allotment_session=portal"
    headers = {"Cookie": f"{theirs}; allotment_way={way}; own=2", "Authorization": "Bearer somebody"}
    answer = home.ask("mine", "/a%2Fb//c%5B1%5D/?x=%20y&z=1+2", headers=headers).json()
    assert (answer["path"], answer["query"]) == ("/a%2Fb//c%5B1%5D/", "x=%20y&z=1+2")
    heard = [(name, text) for name, text in answer["heard"] if name in ("authorization", "cookie", "host")]
    by_name = dict(heard)
    assert len(heard) == len(by_name) == 3
    assert by_name["cookie"] == "_xsrf=1; own=2"
    assert by_name["authorization"].startswith("token ")
    assert by_name["host"] == home.host("mine")
    alone = dict(home.ask("mine", "/x", way=way).json()["heard"])
    assert "cookie" not in alone
    assert alone["authorization"] == by_name["authorization"]


def test_a_stopped_door_carries_nothing_and_bodies_flow_all_the_same(home: House, way: str) -> None:
    url = f"http://127.0.0.1:{home.front}"
    headers = {"Host": home.host("mine"), "Cookie": f"allotment_way={way}"}
    how: dict[str, Any] = {"headers": headers, "timeout": 60, "trust_env": False}
    with httpx.stream("GET", f"{url}/down?mib={BODY_MIB}", **how) as down:
        pieces = down.iter_raw()
        size = len(next(pieces))
        with stopped(home):
            size += sum(map(len, pieces))
    assert size == BODY_MIB * MIB

    def sent() -> Iterator[bytes]:
        yield b"y" * MIB
        until(BEGUN.is_set, "the pod to hear of it", every=0.01)
        with stopped(home):
            yield from (b"y" * MIB for _ in range(BODY_MIB - 1))

    BEGUN.clear()
    assert httpx.put(f"{url}/taken", content=sent(), **how).json() == {"size": BODY_MIB * MIB}


def test_nobody_comes_in_without_a_way_into_this_workload(home: House, way: str) -> None:
    assert refused(home.ask("mine"), 401)
    assert refused(home.ask("mine", way="guessed"), 401)
    assert refused(home.ask("shared", way=way), 401)
    assert refused(home.ask("mine", headers={"Authorization": f"Bearer {home.stage['tokens']['rosa']}"}), 401)
    assert home.ask("mine", host=f"localhost:{home.front}", way=way).status_code == 404
    assert refused(home.ask("mine", host=f"{home.stage['workloads']['mine']}.localhost", way=way), 403)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"Origin": "http://{other}"}),
        ("GET", {"Origin": "null"}),
        ("POST", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Method": "GET"}),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Path": "/.allotment/enter"}),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ],
)
def test_another_workloads_page_cannot_act_here(
    home: House, way: str, method: str, headers: dict[str, str]
) -> None:
    named = {key: value.format(other=home.host("leons")) for key, value in headers.items()}
    assert refused(home.ask("mine", "/api/kernels", method, way=way, headers=named), 403)


def test_what_a_browser_says_that_it_asks_changes_nothing(home: House, way: str) -> None:
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    forged = visit | {"Method": "POST", "Path": "/.allotment/enter"}
    assert "pod of mine" in home.ask("mine", way=way, headers=forged).text
    assert home.ask("mine", "/x", "POST", way=way, headers={"Origin": home.origin("mine")}).status_code == 200


@pytest.mark.parametrize("path", ["/.allotment/enter", "/.allotment/health", "/.allotment", "/%2eallotment/"])
def test_the_doors_own_addresses_are_the_doors_and_say_nothing_of_the_pod(
    home: House, way: str, path: str
) -> None:
    answer, straight = (home.ask("mine", path, way=way, at=port) for port in (home.front, home.door))
    assert (answer.status_code, answer.text) == (straight.status_code, straight.text)
    assert "authorization" not in answer.headers


def test_no_browser_reaches_the_check(home: House, way: str) -> None:
    """Its answer has the pod's token."""
    for path in ("/_ask1", f"/{home.stage['workloads']['mine']}", "/"):
        assert "authorization" not in home.ask("mine", path, way=way).headers


@pytest.mark.parametrize("slug", ["llm", "shared", "mine"])
def test_whoever_names_two_hosts_is_judged_by_the_one_that_is_reached(
    home: House, way: str, slug: str
) -> None:
    """An nginx follows the address and passes on `Host`, which may be that of one's own workload."""
    lines = [f"GET http://{home.host(slug)}/said HTTP/1.1", f"Host: {home.host('mine')}"]
    answer = raw(home.front, *lines, f"Cookie: allotment_way={way}")
    assert answer.split()[1] == (b"200" if slug == "mine" else b"403")


def test_a_socket_goes_through_the_door(home: House, way: str) -> None:
    with home.socket("mine", way) as wire:
        assert json.loads(wire.recv())["authorization"].startswith("token ")
        wire.send("x" * MIB)
        assert wire.recv() == "x" * MIB
    with pytest.raises(InvalidStatus) as foreign:
        home.socket("mine", way, origin=home.origin("leons"))
    assert foreign.value.response.status_code == 403


def test_a_socket_that_the_route_does_not_know_reaches_no_pod(home: House, way: str) -> None:
    """The case of the name is nothing to servers; the route leads the one to the door that browsers write."""
    lines = ["GET /ws HTTP/1.1", f"Host: {home.host('mine')}", f"Cookie: allotment_way={way}"]
    assert raw(home.front, *lines, *HANDSHAKE, "Upgrade: WebSocket").split()[1] == b"403"


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
@pytest.mark.parametrize("connection", ["Upgrade", "close"])
def test_the_check_allows_no_upgrade(
    home: House, check: int, way: str, upgrade: str, connection: str
) -> None:
    lines = [
        f"GET /{home.stage['workloads']['mine']} HTTP/1.1", f"Host: {home.host('mine')}",
        f"Cookie: allotment_way={way}", f"Connection: {connection}", f"Upgrade: {upgrade}",
    ]  # fmt: skip
    for more in ([], HANDSHAKE, [f"Upgrade: {upgrade}"], ["Method: GET"]):
        assert raw(check, *lines, *more).split()[1] == b"403", more


def test_the_check_answers_for_the_route_that_asks(home: House, check: int, way: str) -> None:
    own, other = (home.stage["workloads"][slug] for slug in ("mine", "shared"))
    for path in (f"/{own}", f"/{own}/lab/tree?a=b"):
        answer = home.ask("mine", path, at=check, way=way)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["authorization"].startswith("token ")
    for path in ("/", f"/{other}", f"/{other}/{own}", f"//{own}", f"/{own}x"):
        assert home.ask("mine", path, at=check, way=way).status_code == 403, path


@pytest.mark.parametrize(("name", "slug", "act"), TRIED, ids=[act.__name__ for *_, act in TRIED])
def test_what_is_asked_after_the_right_has_ended_is_refused(
    home: House, name: str, slug: str, act: Act
) -> None:
    way = by_token(home, name, slug) if act is revoke else home.enter(name, slug)
    with home.socket(slug, way) as wire:
        assert wire.recv()
        assert "pod of" in home.ask(slug, way=way).text
        answer = act(home)
        assert answer.status_code < 400, answer.text
        began = time.monotonic()
        with pytest.raises(ConnectionClosed) as closed:
            wire.recv(timeout=WITHIN)
        assert time.monotonic() - began < WITHIN
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4403
    again = home.ask(slug, way=way)
    assert again.status_code in ((200,) if act is change_role else (401, 403)), again.text


def test_a_programs_token_opens_its_service_and_goes_no_further(home: House, way: str) -> None:
    token = {"Authorization": f"Bearer {home.stage['llm']['token']}"}
    answer = home.ask("llm", "/v1/chat/completions", "POST", headers=token, json={"model": "m"})
    assert answer.status_code == 200, answer.text
    heard = dict(answer.json()["heard"])
    assert "authorization" not in heard
    assert heard["content-length"] == "13"
    assert refused(home.ask("mine", headers=token), 401)
    assert refused(home.ask("llm", headers={"Authorization": f"Bearer alt_{'a' * 49}"}), 401)


def test_a_services_page_may_say_who_it_is(home: House) -> None:
    headers = {"Authorization": "Bearer of-the-page"}
    answer = home.ask("llm", "/v1/models", way=home.enter("leon", "llm"), headers=headers)
    assert ["authorization", "Bearer of-the-page"] in answer.json()["heard"]


@pytest.mark.parametrize("beyond", [{"timeouts": {}}, {"filters": [MIRROR]}, *UNKNOWN])
def test_what_nobody_gave_a_meaning_here_is_an_error(tmp_path: Path, beyond: Manifest) -> None:
    """So that these tests are about the routes as the product writes them."""
    written = gateway.route("mine", "id", (1, 2))
    places = {(DOOR_NAMESPACE, DOOR, 1): 1, (DOOR_NAMESPACE, DOOR, 2): 2, (NAMESPACE, "mine", 8888): 3}
    how: dict[str, Any] = {"port": 4, "door": 1, "folder": tmp_path}
    assert "auth_request" in gateway.written([written], places, **how)
    rule = written["spec"]["rules"][-1]
    (rule if beyond.keys() & {"timeouts", "filters"} else rule["matches"][0]).update(beyond)
    with pytest.raises(ValueError, match=r"known here|Say in"):
        gateway.written([written], places, **how)
