"""Programs that call a service through the door: with its token, which ends when the right to it does."""

import time
from typing import Any

import httpx
import pytest

from tests.door.house import WITHIN, House
from tests.patience import until

pytestmark = pytest.mark.programs


def call(home: House, text: str, path: str = "/", slug: str = "llm", **how: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {text}", **how.pop("headers", {})}
    return home.ask(slug, path, headers=headers, **how)


def tokens(home: House, method: str, path: str = "", body: Any = None, name: str = "rosa") -> httpx.Response:
    return home.rest(name, method, f"workloads/{home.stage['llm']['workload']}/tokens{path}", body)


def test_a_path_is_passed_through_as_it_is_and_the_token_is_not(home: House) -> None:
    path = "/v1/chat/completions"
    answer = call(home, home.stage["llm"]["token"], f"{path}?stream=%20a", method="POST", json={"model": "m"})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["path"], answer.json()["query"]) == (path, "stream=%20a")
    heard = dict(answer.json()["heard"])
    assert "authorization" not in heard
    assert heard["content-length"] == "13"
    # A page of another host cannot send it: it is no cookie.
    assert (
        call(home, home.stage["llm"]["token"], headers={"Origin": "https://evil.example"}).status_code == 200
    )


def test_what_it_sends_elsewhere_is_the_programs_own_business(home: House) -> None:
    answer = call(home, home.stage["llm"]["token"], "/away?to=https://elsewhere.example/")
    assert (answer.status_code, answer.headers["location"]) == (302, "https://elsewhere.example/")


def test_a_token_opens_its_own_service_and_no_other_and_a_persons_opens_none(home: House) -> None:
    for text, slug in (
        (home.stage["llm"]["token"], "mine"),
        (home.stage["tokens"]["rosa"], "llm"),
        (f"alt_{'a' * 49}", "llm"),
    ):
        answer = call(home, text, slug=slug)
        if text.endswith("aaa"):  # no token at all: as a browser without a way in
            assert answer.status_code == 401
            continue
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
        assert answer.json()["error"]["message"]
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_member_opens_it_in_the_browser_and_the_pod_hears_what_the_page_says(home: House) -> None:
    way = home.enter("leon", "llm")
    answer = home.ask("llm", "/v1/models", way=way, headers={"Authorization": "Bearer of-the-page"})
    assert answer.status_code == 200
    assert ["authorization", "Bearer of-the-page"] in answer.json()["heard"]


def test_a_rotated_token_opens_for_as_long_as_was_said_and_a_revoked_one_ends_at_once(home: House) -> None:
    made = tokens(home, "POST", body={"name": "batch"})
    assert made.status_code == 201, made.text
    first, path = made.json()["token"], f"/{made.json()['id']}"
    second = tokens(home, "POST", f"{path}/rotate", {"keep_old_seconds": 600}).json()["token"]
    assert [call(home, text).status_code for text in (first, second)] == [200, 200]
    third = tokens(home, "POST", f"{path}/rotate", {}).json()["token"]
    until(lambda: call(home, first).status_code == 401, "the end of the text of before")
    assert call(home, third).status_code == 200
    url, headers = f"http://127.0.0.1:{home.door}/forever", {"Host": home.host("llm")}
    headers["Authorization"] = f"Bearer {third}"
    with httpx.stream("GET", url, headers=headers, timeout=60) as stream:
        ticks = stream.iter_raw()
        assert next(ticks)
        assert tokens(home, "DELETE", path).status_code == 204
        began = time.monotonic()
        with pytest.raises(httpx.RemoteProtocolError):
            list(ticks)
        assert time.monotonic() - began < WITHIN
    assert call(home, third).status_code == 401
    assert call(home, home.stage["llm"]["token"]).status_code == 200
    (left,) = tokens(home, "GET").json()["items"]
    assert left["name"] == "ci"
    until(lambda: tokens(home, "GET").json()["items"][0]["last_used_at"], "the note of its use")
