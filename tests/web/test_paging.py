"""Lists in pages, seen through one's own tokens."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken, User

pytestmark = [
    pytest.mark.urls("tests.web.urls"),
    pytest.mark.django_db,
    pytest.mark.usefixtures("no_broker"),
    pytest.mark.both_databases,
]
LIST = "/api/v1/tokens"


@pytest.fixture
def client(bearer: Callable[..., Client], ada: User) -> Client:
    """Seven tokens, of which three were made at the same instant."""
    client = bearer()
    now = timezone.now()
    for number in range(6):
        ApiToken.objects.create(user=ada, name=f"t{number}", digest=str(number), expires_at=now)
    ApiToken.objects.filter(name__in=("t1", "t2", "t3")).update(created_at=now - timedelta(hours=1))
    return client


def walk(client: Client, query: str) -> list[str]:
    url, names = f"{LIST}?{query}", []
    while url:
        page = client.get(url).json()
        names += [item["name"] for item in page["items"]]
        url = page["next"]
    return names


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 200])
def test_every_row_comes_once_whatever_the_page(limit: int, client: Client) -> None:
    names = walk(client, f"limit={limit}")
    assert sorted(names) == ["t0", "t1", "t2", "t3", "t4", "t5", "test"]
    assert set(names[-3:]) == {"t1", "t2", "t3"}


def test_the_other_direction_is_the_reverse_but_for_ties(client: Client) -> None:
    assert set(walk(client, "limit=2&sort=created_at")[:3]) == {"t1", "t2", "t3"}


def test_rows_that_come_meanwhile_move_nothing(client: Client, ada: User) -> None:
    first = client.get(f"{LIST}?limit=3").json()
    ApiToken.objects.create(user=ada, name="new", digest="new", expires_at=timezone.now())
    rest = client.get(first["next"]).json()
    shown = {item["name"] for item in first["items"] + rest["items"]}
    assert len(first["items"] + rest["items"]) == len(shown) == 6


def test_the_total_is_told_when_asked(client: Client) -> None:
    assert client.get(f"{LIST}?limit=1&include_total=true").json()["total"] == 7
    assert "total" not in client.get(LIST).json()


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=x",
        "limit=²",
        "sort=name",
        "cursor=x",
        "cursor=W10",
        "include_total=yes",
    ],
)
def test_a_wrong_parameter_is_named(query: str, client: Client) -> None:
    answer = client.get(f"{LIST}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert answer.json()["errors"][0]["parameter"] == query.partition("=")[0]


def test_a_cursor_of_another_order_is_refused(client: Client) -> None:
    cursor = client.get(f"{LIST}?limit=1").json()["next"].partition("cursor=")[2]
    assert client.get(f"{LIST}?sort=created_at&cursor={cursor}").status_code == 400
