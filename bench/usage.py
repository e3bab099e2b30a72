"""Pages and costs over a week of raw samples, against the database alone.

    G9   a tenant's use of the last day as JSON, and its page  vs  the SQL over metering that each makes
    G10  what seven days cost by tenant, effective and wasted  vs  the same summed from the raw samples

In process, through the whole stack of views; the figures of both sides are compared before any clock runs.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from bench.figures import Ratio, milliseconds
from bench.raw import raw_sums
from bench.week import HOURLY, Week, checked
from tests.web.page_list import headers_of

Line = dict[str, object]
MILLION = 1_000_000
HOUR_US = 3600 * MILLION
DAY = timedelta(days=1)
EACH = 3
"""A page is asked for so often in a round, because it takes milliseconds."""


def pages(week: Week, rounds: int) -> Iterator[Line]:
    """G9: JSON and HTML of one tenant with its GPUs, the GPUs of all others behind it."""
    tenant = week.tenants[0]
    client = _signed_in(f"{tenant}-0")
    asked = {"tenant": tenant, "from": (week.ends - DAY).isoformat(), "to": week.ends.isoformat()}
    _agree(client, week, tenant, asked)
    yield {
        "what": "g9 roll-ups compared with the product's own",
        "rows": checked(week),
        "samples": week.samples,
    }
    for what, url, goal in (
        ("json", f"/api/v1/utilization?{urlencode(asked)}", {"goal": 8}),
        ("html", f"/t/{tenant}/usage/", {"goal_ms": 60}),
    ):
        yield from _against_its_sql(f"g9 {what}", client, url, rounds, goal)


def _against_its_sql(
    what: str, client: Any, url: str, rounds: int, goal: Mapping[str, object]
) -> Iterator[Line]:
    statements = _statements(client, url)
    ours, bare, used = list[float](), list[float](), list[float]()
    with _bare_cursor() as cursor:
        ways: list[tuple[list[float], Callable[[], None]]] = [
            (ours, lambda: _get(client, url)),
            (bare, lambda: _run(cursor, statements)),
        ]
        for number in range(rounds + 1):
            for times, way in ways if number % 2 else ways[::-1]:
                began, cpu = time.perf_counter(), time.process_time()
                for _ in range(EACH):
                    way()
                if number:  # the first warms both up
                    times.append((time.perf_counter() - began) / EACH)
                if number and times is ours:
                    used.append((time.process_time() - cpu) / EACH)
            if number:
                shown = {"ours_ms": milliseconds(ours[-1:]), "sql_ms": milliseconds(bare[-1:])}
                yield {"round": f"{what} {number}", "statements": len(statements), **shown}
    found = {"ours_ms": milliseconds(ours), "ours_cpu_ms": milliseconds(used), "sql_ms": milliseconds(bare)}
    yield {"what": f"{what} / its SQL", **goal, **found, **Ratio.of(ours, bare).shown()}


def costs(week: Week, rounds: int) -> Iterator[Line]:
    """G10: through REST; the raw side is one statement, and its sums must give the same money."""
    client = _signed_in("bench-platform", role="platform")
    asked = {"group_by": "tenant", "from": week.begins.isoformat(), "to": week.ends.isoformat()}
    url = f"/api/v1/costs?{urlencode(asked)}"
    _agree_on_money(_get(client, url).json()["items"], week)
    ours, raw = list[float](), list[float]()
    for number in range(rounds + 1):
        began = time.perf_counter()
        raw_sums(week.cluster, week.begins, week.ends)
        middle = time.perf_counter()
        for _ in range(EACH):
            _get(client, url)
        if number:
            raw.append(middle - began)
            ours.append((time.perf_counter() - middle) / EACH)
            yield {
                "round": f"g10 {number}",
                "ours_ms": milliseconds(ours[-1:]),
                "raw_ms": milliseconds(raw[-1:]),
            }
    found = {"ours_ms": milliseconds(ours), "raw_ms": milliseconds(raw), "samples": week.samples}
    yield {
        "what": "g10 7 days' cost by tenant / raw samples",
        "goal": 0.05,
        **found,
        **Ratio.of(ours, raw).shown(),
    }


def money(microseconds: Fraction) -> Decimal:
    """What so many microseconds of a GPU cost, to the eighth decimal."""
    from apps.metering.billing.rules.pricing import amount

    return amount(Fraction(HOURLY) * microseconds / HOUR_US)


def _agree_on_money(items: Sequence[dict[str, Any]], week: Week) -> None:
    """Charged and what of it was work, by tenant, are what the raw samples give, to the last decimal."""
    raw = raw_sums(week.cluster, week.begins, week.ends)
    if {item["tenant"] for item in items} != set(raw) or not raw:
        raise AssertionError("not the same tenants")
    for item in items:
        sums = raw[item["tenant"]]
        expected = {
            "charged": money(Fraction(sums["us"])),
            "effective": money(Fraction(sums["effective"], MILLION)),
        }
        told = {name: Decimal(item[name]["amount"]) for name in expected}
        # Parts are shared out so that they sum to the whole: the last decimal of one may be another's.
        if any(abs(told[name] - expected[name]) > Decimal("0.00000001") for name in expected):
            raise AssertionError(f"{item['tenant']}: {told} instead of {expected}")


def _agree(client: Any, week: Week, tenant: str, asked: dict[str, str]) -> None:
    """The JSON says what the raw samples say."""
    found = _get(client, f"/api/v1/utilization/summary?{urlencode(asked)}").json()["items"][0]
    sums = raw_sums(week.cluster, week.ends - DAY, week.ends)[tenant]
    expected = (round(sums["us"] / HOUR_US, 6), round(sums["sm"] / sums["us"] / MILLION, 6))
    if (found["gpu_hours"], found["mean"]["sm_active"]) != expected:
        raise AssertionError(f"{found} instead of {expected}")


def _signed_in(username: str, *, role: str = "") -> Any:
    from django.conf import settings
    from django.test import Client

    from apps.accounts.models import User

    settings.ALLOWED_HOSTS = ["testserver"]
    client = Client()
    client.force_login(User.objects.get_or_create(username=username, defaults={"platform_role": role})[0])
    return client


def _get(client: Any, url: str) -> Any:
    answer = client.get(url, headers=headers_of(url))
    if answer.status_code != 200 or b"could not be made" in answer.content:
        raise AssertionError((url, answer.status_code, answer.content[:300]))
    return answer


def _statements(client: Any, url: str) -> list[str]:
    """What the request asks of the tables of metering: sessions, tenants and the like are left out."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        _get(client, url)
    return [each["sql"] for each in captured if '"metering_' in each["sql"]]


def _bare_cursor() -> Any:
    import os

    import psycopg

    return psycopg.connect(os.environ["ALLOTMENT_DATABASE_URL"], autocommit=True).cursor()


def _run(cursor: Any, statements: Sequence[str]) -> None:
    for each in statements:
        cursor.execute(each.encode())
        cursor.fetchall()
