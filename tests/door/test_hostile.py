"""What a hostile page, a stolen code or a forged request gets at a door that runs: nothing."""

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.door.house import House

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def way(home: House) -> str:
    return home.enter("rosa", "mine")


def refused(answer: httpx.Response, status: int) -> bool:
    """A page of the door's own, that says what to do."""
    return answer.status_code == status and '<a href="http://127.0.0.1' in answer.text


@pytest.mark.exhaustive
def test_a_head_that_dribbles_is_cut_off(home: House) -> None:
    with socket.create_connection(("127.0.0.1", home.door), timeout=60) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert caller.recv(65536) == b""


def test_without_a_cookie_nobody_is_inside(home: House, way: str) -> None:
    assert refused(home.ask("mine"), 401)
    assert refused(home.ask("mine", way="guessed"), 401)
    assert refused(home.ask("mine", way=way[:-1]), 401)


def test_a_way_into_one_workload_leads_into_no_other(home: House, way: str) -> None:
    assert refused(home.ask("shared", way=way), 401)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost:{port}", "127.0.0.1:{port}", "{id}.localhost", "{id}.localhost:1",
     "{id}.evil.example", "x.{id}.localhost:{port}", "{hex}.localhost:{port}", "{id}.localhost.:{port}"],
)  # fmt: skip
def test_any_other_host_is_nobodys(home: House, way: str, host: str) -> None:
    """DNS rebinding, and every other writing of a host that is somebody's."""
    known = home.stage["workloads"]["mine"]
    named = host.format(id=known, hex=known.replace("-", ""), port=home.door)
    answer = home.ask("mine", host=named, way=way)
    assert refused(answer, 404)
    assert "pod of" not in answer.text
    with pytest.raises(InvalidStatus):
        home.socket("mine", way, host=named)


def test_two_hosts_are_none(home: House, way: str) -> None:
    lines = [
        "GET / HTTP/1.1",
        f"Host: {home.host('mine')}",
        "Host: evil.example",
        f"Cookie: allotment_way={way}",
    ]
    with socket.create_connection(("127.0.0.1", home.door)) as wire:
        wire.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        answer = wire.makefile("rb").read()
    assert answer.split()[1] in (b"400", b"404")
    assert b"pod of" not in answer


def raw(home: House, *lines: str, body: bytes = b"") -> bytes:
    """What the door answers to a request that no library would write."""
    with socket.create_connection(("127.0.0.1", home.door), timeout=60) as wire:
        wire.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        return wire.makefile("rb").read()


@pytest.mark.parametrize(
    ("target", "host"),
    [("GET http://{mine}/", "evil.example"), ("GET http://evil.example/said", "{mine}"),
     ("GET http://{mine}/said", "{mine}"), ("OPTIONS *", "{mine}")],
)  # fmt: skip
def test_what_stands_in_the_place_of_a_path_is_nobodys(home: House, way: str, target: str, host: str) -> None:
    """Absolute form beside `Host`: which of the two counts is a question that a proxy must not answer."""
    mine, before = home.host("mine"), len(home.log.read_text())
    lines = [f"{target.format(mine=mine)} HTTP/1.1", f"Host: {host.format(mine=mine)}"]
    answer = raw(home, *lines, f"Cookie: allotment_way={way}")
    assert answer.split()[1] == b"404"
    assert b"pod of" not in answer
    assert "Traceback" not in home.log.read_text()[before:]


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "Forwarded", "X-Original-Host", "X-Host"])
def test_no_other_header_says_whose_host_it_is(home: House, way: str, name: str) -> None:
    text = f"host={home.host('mine')}" if name == "Forwarded" else home.host("mine")
    assert refused(home.ask("mine", host="evil.example", way=way, headers={name: text}), 404)
    other = home.ask("mine", way=way, headers={name: text.replace(home.host("mine"), home.host("leons"))})
    assert "pod of mine" in other.text


def test_a_request_hidden_in_anothers_body_reaches_nobody(home: House, way: str) -> None:
    """Two lengths: were the door and the pod of two minds, the rest would be the next person's request."""
    hidden = b"0\r\n\r\nPOST /api/shutdown HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    answer = raw(
        home, "POST /said HTTP/1.1", f"Host: {home.host('mine')}", f"Cookie: allotment_way={way}",
        f"Content-Length: {len(hidden)}", "Transfer-Encoding: chunked", body=hidden,
    )  # fmt: skip
    assert b"/api/shutdown" not in answer
    assert answer.count(b"HTTP/1.1 200") <= 1
    assert "pod of mine" in home.ask("mine", way=way).text, "its next answer is its own"


def test_a_code_is_used_once(home: House) -> None:
    url = home.asked_for("rosa", "mine")
    sent = home.at_door(url)
    kept = sent.cookies["allotment_browser"]
    with home.as_("rosa") as browser:
        back = browser.get(sent.headers["location"]).headers["location"]
    assert home.at_door(back, allotment_browser=kept).status_code == 303
    assert refused(home.at_door(back, allotment_browser=kept), 404)


def test_of_two_that_bring_a_code_at_once_one_comes_in(home: House) -> None:
    sent = home.at_door(home.asked_for("rosa", "mine"))
    kept = sent.cookies["allotment_browser"]
    with home.as_("rosa") as browser:
        back = browser.get(sent.headers["location"]).headers["location"]
    with ThreadPoolExecutor(4) as pool:
        came = [pool.submit(home.at_door, back, allotment_browser=kept) for _ in range(4)]
        answers = [each.result() for each in came]
    assert sum("allotment_way" in each.cookies for each in answers) == 1


def test_another_persons_code_is_refused_at_the_portal(home: House) -> None:
    sent = home.at_door(home.asked_for("rosa", "shared"))
    with home.as_("leon") as browser:
        answer = browser.get(sent.headers["location"])
    assert answer.status_code == 403
    assert "another person" in answer.text


def test_a_code_that_was_confirmed_opens_nothing_in_another_browser(home: House) -> None:
    sent = home.at_door(home.asked_for("rosa", "mine"))
    with home.as_("rosa") as browser:
        back = browser.get(sent.headers["location"]).headers["location"]
        assert browser.get(sent.headers["location"]).status_code == 409
    assert refused(home.at_door(back), 404)
    assert refused(home.at_door(back, allotment_browser="mine"), 404)


def test_a_code_of_one_workload_opens_no_other(home: House) -> None:
    url = home.asked_for("rosa", "mine")
    other = url.replace(home.stage["workloads"]["mine"], home.stage["workloads"]["shared"])
    assert refused(home.at_door(other), 404)


def test_who_may_not_open_it_gets_no_code(home: House) -> None:
    for name, status in (("leon", 403), ("petra", 403), ("otto", 404)):
        answer = home.rest(name, "POST", f"workloads/{home.stage['workloads']['mine']}/open")
        assert answer.status_code == status, answer.text
    assert home.rest("leon", "POST", f"workloads/{home.stage['workloads']['shared']}/open").status_code == 200


def test_the_cookie_is_the_hosts_own_and_no_script_reads_it(home: House) -> None:
    made = home.rest("rosa", "POST", f"workloads/{home.stage['workloads']['mine']}/open").json()
    cookie = home.at_door(made["url"]).headers["set-cookie"].lower()
    assert cookie.startswith("allotment_way=")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "domain" not in cookie


def test_a_cookie_that_was_planted_beside_the_right_one_makes_both_void(home: House, way: str) -> None:
    other = home.enter("rosa", "mine")
    for planted in ("planted", other):
        headers = {"Cookie": f"allotment_way={planted}; allotment_way={way}"}
        assert refused(home.ask("mine", headers=headers), 401)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"Origin": "http://{other}"}),
        ("POST", {"Origin": "null"}),
        ("GET", {"Origin": "https://evil.example"}),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}),
        ("POST", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ],
)
def test_another_workloads_page_cannot_act_here(
    home: House, way: str, method: str, headers: dict[str, str]
) -> None:
    """Its requests are of the same site, so the browser sends the cookie along."""
    named = {key: value.format(other=home.host("leons")) for key, value in headers.items()}
    assert refused(home.ask("mine", "/api/kernels", method, way=way, headers=named), 403)


def test_a_visit_from_elsewhere_is_welcome(home: House, way: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert "pod of mine" in home.ask("mine", way=way, headers=headers).text


@pytest.mark.parametrize(
    "origin", ["http://{other}", "https://evil.example", "null", "http://localhost:{port}", ""]
)
def test_a_socket_from_another_page_is_refused(home: House, way: str, origin: str) -> None:
    named = origin.format(other=home.host("leons"), port=home.door)
    with pytest.raises(InvalidStatus) as told:
        home.socket("mine", way, origin=named)
    assert told.value.response.status_code == 403


@pytest.mark.parametrize("to", ["ws://169.254.169.254/", "/ws", "wss://evil.example/"])
def test_a_socket_is_led_nowhere(home: House, way: str, to: str) -> None:
    before = len(home.log.read_text())
    with pytest.raises(InvalidStatus):
        home.socket("mine", way, path=f"/ws-away?to={to}")
    assert "Traceback" not in home.log.read_text()[before:]


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "http:\\\\evil.example",
     "https:evil.example", "javascript:alert(1)", "///evil.example", "http://{host}@evil.example/"],
)  # fmt: skip
def test_no_redirect_leads_out_by_itself(home: House, way: str, to: str) -> None:
    answer = httpx.get(
        f"http://127.0.0.1:{home.door}/away",
        params={"to": to.format(host=home.host("mine"))},
        headers={"Host": home.host("mine"), "Cookie": f"allotment_way={way}"},
        trust_env=False,
    )
    assert (answer.status_code, "location" in answer.headers) == (200, False)
    assert "leads out" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("to", ["/lab", "lab?a=b", "http://{host}/tree"])
def test_a_redirect_within_the_workload_goes_through(home: House, way: str, to: str) -> None:
    answer = home.ask("mine", f"/away?to={to.format(host=home.host('mine'))}", way=way)
    assert (answer.status_code, answer.headers["location"]) == (302, to.format(host=home.host("mine")))


@pytest.mark.parametrize(
    "path", ["/.allotment/enter", "/.allotment/enter?code=", "/.allotment/enter?code=x&next=//evil.example"]
)
def test_a_code_that_is_none_leads_nowhere(home: House, path: str) -> None:
    answer = home.ask("mine", path)
    assert refused(answer, 404)
    assert "location" not in answer.headers


def test_the_portals_session_is_worth_nothing_at_the_door(home: House) -> None:
    session = home.stage["sessions"]["rosa"]
    headers = {"Cookie": f"{home.stage['cookie']}={session}; allotment_way={session}"}
    assert refused(home.ask("mine", headers=headers), 401)


def test_who_opened_whose_and_when_is_written_down(home: House) -> None:
    home.enter("leon", "shared")
    row = home.stage["workloads"]["shared"]
    told = [event["message"] for event in home.rest("rosa", "GET", f"workloads/{row}/events").json()["items"]]
    assert "leon opened it." in told


def test_sharing_is_the_owners_word(home: House) -> None:
    refused_ = home.opened_to("petra", "leons", "team")
    assert refused_.status_code == 403, refused_.text
    answer = home.opened_to("leon", "leons", "team")
    assert answer.status_code in (200, 202), answer.text
    assert answer.json()["spec"]["notebook"]["open_to"] == "team"
