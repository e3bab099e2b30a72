"""How the right to what is open ends: somebody does one of these."""

from collections.abc import Callable

import httpx

from tests.door.house import House
from tests.sample import every

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


def by_token(home: House, name: str, slug: str) -> str:
    """The cookie of a way in that an API token asked for."""
    answer = home.rest(name, "POST", f"workloads/{home.stage['workloads'][slug]}/open", {})
    return home.at_door(answer.json()["url"]).cookies["allotment_way"]
