"""What is open through the door ends with the right to it."""

import ast
import time
from collections import deque
from collections.abc import Callable

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.door.endings import TRIED, Act, by_token, change_role, revoke
from tests.door.house import ROOT, WITHIN, House

pytestmark = pytest.mark.programs


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


def test_all_that_goes_through_belongs_to_a_way_in() -> None:
    """What opens something towards a pod is begun within `Way.during`, and nowhere else. SSH has a guard for
    each connection (tests/story/test_ssh_story.py).
    """
    door = {path.stem: ast.parse(path.read_text()) for path in (ROOT / "portal" / "door").glob("[!_]*.py")}
    calls = [node for tree in door.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    begun = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "during"]
    assert {ast.unparse(call.args[0].func) for call in begun} == {"exchange.run", "_joined", "_heard"}  # type: ignore[attr-defined]
    for name, opener in (("_joined", "_connected"), ("run", "handle_async_request")):
        assert sum(_named(call) == name for call in calls) == 1
        assert sum(_named(call) == opener for call in calls) == 1


def _named(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
