"""Asks the IDEs of notebooks what they do: by the API server's port-forward, with the token of the door.

What is not answered in time, in form or in size is unknown, and kept as that. Nothing is stopped here.
"""

import asyncio
import logging
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import orjson

from apps.cluster.gateway import forwarding
from apps.errors import DomainError
from apps.workloads.changes.services import telling
from apps.workloads.models import Workload
from apps.workloads.opening.rules import ide_activity
from apps.workloads.opening.rules.ide_activity import Activity
from apps.workloads.opening.selectors import ide_use
from apps.workloads.opening.services.reaching import Upstream, upstream
from apps.workloads.specs import Phase

log = logging.getLogger(__name__)
MOST, AT_ONCE, OF_ONE = 300, 32, 16
"""Notebooks of one slice, how many of them are asked at the same time, and how many of one cluster: one that
is silent leaves room for the others.
"""
SECONDS, SLICE_SECONDS, CLOSING_SECONDS = 5.0, 50.0, 2.0
LARGEST = 256 * 1024
"""Bytes of one answer."""
SAYS = ("kernels", "running", "tabs", "terminals", "problem")
"""What an open page follows; times are read when it is loaded."""


class Reached(NamedTuple):
    """One to be asked, in which cluster; `is_jupyter`: it has said so in this run."""

    cluster: UUID
    to: Upstream
    is_jupyter: bool = False


def ask_due(*, now: datetime) -> int:
    """One slice of those that are due; answers how many said something.

    RULE: one whose turn did not come in the slice's time keeps what it said before. It is asked again when it
    is due again, so that what is silent never stands first in every slice.
    """
    rows = list(ide_use.due(now)[:MOST])
    Workload.objects.filter(pk__in=[row.pk for row in rows]).update(ide_asked_at=now)
    reached = {
        row.pk: Reached(row.cluster_id, found, ide_activity.is_jupyter(row.ide, row.started_at))
        for row in rows
        if (found := _upstream(row))
    }
    said = asyncio.run(_ask_all(reached, now)) if reached else {}
    for row in rows:
        if row.pk in said or row.pk not in reached:
            _keep(row, said.get(row.pk, {"problem": ide_activity.NO_ANSWER}))
    return sum("problem" not in each for each in said.values())


def _upstream(row: Workload) -> Upstream | None:
    try:
        # Workers are no proxy: an IDE's network policy lets the door in alone.
        return upstream(row, straight=False)
    except DomainError as error:
        log.info("the IDE of %s is not reached: %s", row.pk, error)
        return None


def _keep(row: Workload, said: Mapping[str, Any]) -> None:
    """Of the run that was asked; no change that people made, so neither `updated_at` nor a generation."""
    same = Workload.objects.filter(pk=row.pk, phase=Phase.RUNNING, started_at=row.started_at)
    before = row.ide or {}
    if same.update(ide=said) and any(before.get(key) != said.get(key) for key in SAYS):
        telling.tell_ide(row)


async def _ask_all(reached: Mapping[UUID, Reached], now: datetime) -> dict[UUID, Mapping[str, Any]]:
    """What each said, of those whose turn came before the slice's time is over."""
    free, said = asyncio.Semaphore(AT_ONCE), dict[UUID, Mapping[str, Any]]()
    lanes = defaultdict[UUID, asyncio.Semaphore](lambda: asyncio.Semaphore(OF_ONE))

    async def ask(pk: UUID, one: Reached, path: str) -> None:
        async with lanes[one.cluster], free:
            said[pk] = {"problem": ide_activity.NO_ANSWER}
            said[pk] = await _said(one, path, now)

    with tempfile.TemporaryDirectory(prefix="allotment-asking-") as folder:
        tasks = [
            asyncio.ensure_future(ask(pk, one, str(Path(folder) / str(number))))
            for number, (pk, one) in enumerate(reached.items())
        ]
        _, late = await asyncio.wait(tasks, timeout=SLICE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # Connections that are closing: cut off by the loop's end, each would be logged as an error.
    if closing := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(closing, timeout=CLOSING_SECONDS)
    return said


async def _said(one: Reached, path: str, now: datetime) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(SECONDS):
            return await _asked(one, path, now)
    except PermissionError:
        return {"problem": ide_activity.REFUSED}
    except (httpx.HTTPError, OSError, TimeoutError) as error:
        log.info("the IDE of %s does not answer: %s", one.to.host, error)
        return {"problem": ide_activity.NO_ANSWER}
    except ValueError:
        return {"problem": ide_activity.NOT_JUPYTER}


async def _asked(one: Reached, path: str, now: datetime) -> Mapping[str, Any]:
    """RULE: VS Code's heartbeat is asked for before Jupyter: every other address makes it beat, so that
    whoever asks Jupyter's first sees no tab but themselves. What is known as Jupyter is not asked for one,
    which its log would have as an error each time.
    """
    to = one.to
    if to.way is None:
        raise ValueError("asked through the API server only")
    # As in the door: no client, which would follow redirects and keep cookies; and nothing to verify on a
    # socket of ours: to read whom the machine trusts takes 20 ms and 0.7 MB.
    made = httpx.AsyncHTTPTransport(verify=False, uds=path, trust_env=False)
    async with forwarding.listening(to.way, path), made as http:
        if not one.is_jupyter and (health := await _health(http, to, now)):
            return health.as_json()
        kernels = await _document(http, to, ide_activity.KERNELS)
        status = await _document(http, to, ide_activity.STATUS)
        terminals = await _document(http, to, ide_activity.TERMINALS, absent=[])
    return ide_activity.read(kernels, status, now, terminals).as_json()


async def _health(http: httpx.AsyncHTTPTransport, to: Upstream, now: datetime) -> Activity | None:
    """What code-server says; None: it is none."""
    try:
        return ide_activity.read_health(await _document(http, to, ide_activity.HEALTH), now)
    except (PermissionError, ValueError):
        return None


async def _document(http: httpx.AsyncHTTPTransport, to: Upstream, address: str, absent: Any = None) -> Any:
    """What it answers there; `absent` where it has no such address, if it need not."""
    headers = {"Host": to.host, "Authorization": f"token {to.token}", "Accept": "application/json"}
    timeout = {"connect": SECONDS, "pool": SECONDS, "read": SECONDS, "write": SECONDS}
    request = httpx.Request(
        "GET", f"http://{to.host}:{to.port}{address}", headers=headers, extensions={"timeout": timeout}
    )
    answer = await http.handle_async_request(request)
    try:
        if answer.status_code in (401, 403):
            raise PermissionError
        if answer.status_code == 404 and absent is not None:
            return absent
        if answer.status_code != 200:
            raise ValueError(address)
        body = b""
        # As it comes: what is compressed is no answer to this question, and may be a bomb.
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > LARGEST:
                raise ValueError(address)
        return orjson.loads(body)
    finally:
        await answer.aclose()
