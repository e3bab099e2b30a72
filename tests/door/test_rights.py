"""What is open through the door ends with the right to it."""

import ast
import time
from collections import deque
from collections.abc import Callable

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.door.house import ROOT, WITHIN, House
from tests.sample import every

pytestmark = pytest.mark.programs

Act = Callable[[House], httpx.Response]


def stop(home: House) -> httpx.Response:
    return home.rest("nina", "POST", f"workloads/{home.stage['workloads']['stops']}/stop", {})


def delete(home: House) -> httpx.Response:
    path = f"workloads/{home.stage['workloads']['goes']}"
    tag = home.rest("nina", "GET", path).headers["etag"]
    headers = {"Authorization": f"Bearer {home.stage['tokens']['nina']}", "If-Match": tag}
    return httpx.delete(f"{home.portal}/api/v1/{path}", headers=headers, timeout=60)


def sign_out(home: House) -> httpx.Response:
    with home.as_("quinn") as browser:
        csrf = browser.get("/t/vision/").text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        return browser.post("/sign-out/", data={"csrfmiddlewaretoken": csrf}, headers={"Origin": home.portal})


def end_membership(home: House) -> httpx.Response:
    return home.rest("petra", "DELETE", "tenants/vision/members/omar")


def disable(home: House) -> httpx.Response:
    return home.rest("petra", "POST", "users/pia/disable", {})


def change_role(home: House) -> httpx.Response:
    return home.rest("petra", "PUT", "tenants/vision/members/uma", {"role": "lead"})


def revoke(home: House) -> httpx.Response:
    (token,) = home.rest("vito", "GET", "tokens").json()["items"]
    return home.rest("vito", "DELETE", f"tokens/{token['id']}")


def share_no_longer(home: House) -> httpx.Response:
    return home.opened_to("rosa", "lent", "owner")


CASES: list[tuple[str, str, Act]] = [
    ("nina", "stops", stop),
    ("nina", "goes", delete),
    ("quinn", "signs", sign_out),
    ("omar", "leaves", end_membership),
    ("pia", "locked", disable),
    ("uma", "leads", change_role),
    ("vito", "robs", revoke),
    ("leon", "lent", share_no_longer),
]


TRIED = every(3, CASES)


@pytest.mark.parametrize(("name", "slug", "act"), TRIED, ids=[act.__name__ for *_, act in TRIED])
def test_streams_and_sockets_end(
    home: House, name: str, slug: str, act: Act, record_property: Callable[..., None]
) -> None:
    way = by_token(home, name, slug) if act is revoke else home.enter(name, slug)
    headers = {"Host": home.host(slug), "Cookie": f"allotment_way={way}"}
    base = f"http://127.0.0.1:{home.door}"
    with (
        home.socket(slug, way) as socket,
        httpx.stream("GET", f"{base}/forever", headers=headers, timeout=60) as busy,
        httpx.stream("GET", f"{base}/quiet", headers=headers, timeout=60) as quiet,
    ):
        ticks, words = busy.iter_raw(), quiet.iter_raw()
        assert next(ticks)
        assert next(words)
        assert socket.recv()
        answer = act(home)
        assert answer.status_code < 400, answer.text
        began = time.monotonic()
        with pytest.raises(httpx.RemoteProtocolError):
            deque(ticks, maxlen=0)
        with pytest.raises(httpx.RemoteProtocolError):
            next(words)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=WITHIN)
        took = time.monotonic() - began
    assert took < WITHIN
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403
    record_property("seconds", round(took, 2))
    # In another role she opens it as before: what was open in the old one has ended.
    assert home.ask(slug, way=way).status_code in ((200,) if act is change_role else (401, 403, 409))


def by_token(home: House, name: str, slug: str) -> str:
    """The cookie of a way in that an API token asked for."""
    answer = home.rest(name, "POST", f"workloads/{home.stage['workloads'][slug]}/open", {})
    return home.at_door(answer.json()["url"]).cookies["allotment_way"]


def test_all_that_goes_through_belongs_to_a_way_in() -> None:
    """What opens something towards a pod is begun within `Way.during`, and nowhere else. SSH has a guard for
    each connection (tests/story/test_ssh_story.py).
    """
    door = {path.stem: ast.parse(path.read_text()) for path in (ROOT / "portal" / "door").glob("*.py")}
    calls = [node for tree in door.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    begun = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "during"]
    assert {ast.unparse(call.args[0].func) for call in begun} == {"exchange.run", "_joined", "_heard"}  # type: ignore[attr-defined]
    for name, opener in (("_joined", "_connected"), ("run", "handle_async_request")):
        assert sum(_named(call) == name for call in calls) == 1
        assert sum(_named(call) == opener for call in calls) == 1


def _named(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
