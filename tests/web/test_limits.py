"""600 requests a minute per credential, 60 per address without one; nobody refused while Redis is away."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.test import Client

from apps.web import counters
from apps.web.problems.refusals import RateLimited
from apps.web.requests import limits

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db]
NOW = datetime(2026, 11, 20, 9, 0, 19, tzinfo=UTC)


def test_the_request_after_the_last_is_refused_until_the_minute_is_over(broker: str) -> None:
    policy = limits.TOKEN
    found = [limits.spend(policy, "1", NOW) for _ in range(policy.quota + 1)]
    first, last, beyond = (found[place] for place in (0, -2, -1))
    assert (first, last) == (limits.Allowance(policy, 599, 41), limits.Allowance(policy, 0, 41))
    assert beyond
    with pytest.raises(RateLimited) as refusal:
        beyond.require()
    assert refusal.value.retry_after == 41
    assert limits.spend(policy, "2", NOW) == first
    assert limits.spend(policy, "1", NOW.replace(minute=1)) == first


def test_what_is_given_back_is_free_again_and_looking_costs_nothing(broker: str) -> None:
    policy = limits.Policy("one", 1)
    free, used = limits.Allowance(policy, 0, 41), limits.Allowance(policy, -1, 41)
    assert [limits.left(policy, "1", NOW) for _ in range(3)] == [free] * 3
    assert limits.spend(policy, "1", NOW) == free
    assert limits.left(policy, "1", NOW) == used
    limits.give_back(policy, "1", NOW)
    assert limits.spend(policy, "1", NOW) == free


def test_answers_say_what_is_left(bearer: Callable[..., Client], broker: str) -> None:
    answer = bearer().get("/api/v1/me")
    assert answer["RateLimit-Policy"] == '"token";q=600;w=60'
    assert answer["RateLimit"].startswith('"token";r=599;t=')


def test_a_token_over_its_limit_gets_429_with_the_wait(
    bearer: Callable[..., Client], broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TOKEN", limits.Policy("token", 1))
    client = bearer()
    assert client.get("/api/v1/me").status_code == 200
    refused = client.get("/api/v1/me")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert refused["RateLimit"].startswith('"token";r=0;t=')


def test_without_redis_nobody_is_refused_and_it_is_counted(
    bearer: Callable[..., Client], no_broker: None
) -> None:
    before = counters.FAILED_OPEN.labels("rate limit")._value.get()
    answer = bearer().get("/api/v1/me")
    assert (answer.status_code, answer.has_header("RateLimit")) == (200, False)
    assert counters.FAILED_OPEN.labels("rate limit")._value.get() > before
