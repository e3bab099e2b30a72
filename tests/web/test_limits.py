"""600 requests a minute per token, and nobody refused while Redis is away."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.test import Client

from apps.web import counters, limits
from apps.web.refusals import RateLimited

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db]
NOW = datetime(2026, 11, 20, 9, 0, 19, tzinfo=UTC)


def test_the_request_after_the_last_is_refused_until_the_minute_is_over(broker: str) -> None:
    left = [limits.spend("token:1", NOW) for _ in range(limits.QUOTA)]
    assert (left[0], left[-1]) == (limits.Allowance(599, 41), limits.Allowance(0, 41))
    with pytest.raises(RateLimited) as refusal:
        limits.spend("token:1", NOW)
    assert refusal.value.retry_after == 41
    assert limits.spend("token:2", NOW) == limits.Allowance(599, 41)
    assert limits.spend("token:1", NOW.replace(minute=1)) == limits.Allowance(599, 41)


def test_answers_say_what_is_left(bearer: Callable[..., Client], broker: str) -> None:
    answer = bearer().get("/api/v1/me")
    assert answer["RateLimit-Policy"] == '"token";q=600;w=60'
    assert answer["RateLimit"].startswith('"token";r=599;t=')


def test_a_token_over_its_limit_gets_429_with_the_wait(
    bearer: Callable[..., Client], broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUOTA", 1)
    client = bearer()
    assert client.get("/api/v1/me").status_code == 200
    refused = client.get("/api/v1/me")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(refused["Retry-After"]) <= 60


def test_without_redis_nobody_is_refused_and_it_is_counted(
    bearer: Callable[..., Client], no_broker: None
) -> None:
    before = counters.FAILED_OPEN.labels("rate limit")._value.get()
    answer = bearer().get("/api/v1/me")
    assert (answer.status_code, answer.has_header("RateLimit")) == (200, False)
    assert counters.FAILED_OPEN.labels("rate limit")._value.get() == before + 1
