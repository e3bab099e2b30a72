"""How long every page takes until its first byte, in process: 95 of 100 answers, CPU, statements, length.

Of the answers to one page the 95th percentile is the nearest rank: of 40 the third longest.

The process is warm, as one that takes connections is: else the collector walks all of Django in some answers.

--home DIR   the data of a demo that has its week (stop it first); goal 100 ms
without      40 tenants with some 5,000 bill lines on PostgreSQL, 20,000,000 samples; goal 150 ms
"""

import gzip
import time
from collections.abc import Iterator
from math import ceil
from typing import Any

from bench.usage import Line, _get, _signed_in
from bench.week import Week

TENANTS, LINES = 40, 5000
GPUS = 25
"""Of a tenant: 20,000,000 samples are then of 40 tenants."""
WORKS = 160
"""Workloads of a tenant, of which some 125 held a GPU in the week."""
ASKED = 40
GOAL_DEMO, GOAL_LARGE = 100, 150
"""Milliseconds."""


def of_demo(rounds: int) -> Iterator[Line]:
    """Every page of the tenant with the most workloads, on what Django is set up on."""
    from django.db.models import Count

    from apps.tenants.models import Tenant

    tenants = Tenant.objects.filter(deleted_at=None).annotate(count=Count("workloads"))
    yield from _pages(tenants.order_by("-count")[0].slug, GOAL_DEMO, rounds)


def of_week(week: Week, rounds: int) -> Iterator[Line]:
    """The same of one of many tenants."""
    from apps.metering.models import Allocation

    lines = Allocation.objects.values("workload", "offer", "capacity").distinct().count()
    yield {"what": "pages, made", "tenants": len(week.tenants), "bill_lines": lines, "samples": week.samples}
    yield from _pages(week.tenants[0], GOAL_LARGE, rounds)


def _pages(tenant: str, goal: int, rounds: int) -> Iterator[Line]:
    from apps.tenants.models import Membership
    from apps.workloads.models import Workload
    from portal.warming import warm
    from tests.web.page_list import addresses

    warm()
    workload = Workload.objects.filter(tenant__slug=tenant, deleted_at=None).latest("created_at")
    member = Membership.objects.filter(tenant__slug=tenant).order_by("role").first()
    clients = {
        "lead": _signed_in(member.user.username if member else ""),
        "platform": _signed_in("bench-platform", role="platform"),
    }
    slow = 0
    for who, urls in addresses(tenant, workload.pk).items():
        for url in urls:
            line = _page(clients[who], url, max(ASKED, rounds))
            slow += line["p95_ms"] > goal
            yield {"what": f"page {url.replace(str(workload.pk), '...')}", "goal_ms": goal, **line}
    yield {"what": "pages above the goal", "pages": slow, "goal": 0}


def _page(client: Any, url: str, times: int) -> dict[str, Any]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    answer = _get(client, url)
    with CaptureQueriesContext(connection) as captured:
        _get(client, url)
    statements = len(captured)
    walls, cpus = list[float](), list[float]()
    for _ in range(times):
        began, cpu = time.perf_counter(), time.process_time()
        _get(client, url)
        walls.append((time.perf_counter() - began) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
    walls.sort()
    return {
        "p50_ms": round(walls[len(walls) // 2], 1),
        "p95_ms": round(walls[ceil(0.95 * len(walls)) - 1], 1),
        "cpu_ms": round(sorted(cpus)[len(cpus) // 2], 1),
        "least_cpu_ms": round(min(cpus), 1),
        "statements": statements,
        "bytes": len(answer.content),
        "gzip_bytes": len(gzip.compress(answer.content, 6)),
    }
