"""Finds the checks, runs them in threads against one API server, and keeps what each observed.

Judges nothing about equality: that is `compare`. A check that raises has failed its own rule.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import secrets
import string
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.contract import checks, kubeconfig
from tests.contract.answers import normalised
from tests.contract.api import Api, Cluster
from tests.controlplane import binaries
from tests.patience import within

PREFIX = "check_"
# Groups whose names begin so need kubectl; without it they cannot run.
KUBECTL = "kubectl_"
FIRST_GROUP = "deletion"


@dataclass(frozen=True)
class Check:
    """One function of `tests.contract.checks`."""

    group: str
    sentence: str
    function: Callable[[Api], Any]

    @property
    def id(self) -> str:
        """How records and differences name it."""
        return f"{self.group}.{self.sentence}"


@dataclass(frozen=True)
class Outcome:
    """What a check saw, or why it failed."""

    observation: Any
    failure: str | None
    seconds: float


def find(groups: Iterable[str] = ()) -> list[Check]:
    """Every check, or those of some groups, in the order of the files."""
    wanted = set(groups)
    found = []
    for module in pkgutil.iter_modules(checks.__path__):
        if wanted and module.name not in wanted:
            continue
        loaded = importlib.import_module(f"{checks.__name__}.{module.name}")
        for name, function in vars(loaded).items():
            if name.startswith(PREFIX) and function.__module__ == loaded.__name__:
                found.append(Check(module.name, name.removeprefix(PREFIX), function))
    return found


def groups() -> list[str]:
    """The names of the groups that hold checks."""
    return list(dict.fromkeys(check.group for check in find()))


@contextmanager
def cluster(path: Path) -> Iterator[Cluster]:
    """An open cluster behind a kubeconfig; its namespaces are gone or going when it closes."""
    target = kubeconfig.read(path)
    # One line per request would bury what a failing check says.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))
    found = binaries.find()
    kubectl = found.path("kubectl") if found else None
    with TemporaryDirectory(prefix="contract-") as scratch, target.open() as http:
        opened = Cluster(target, http, letters, kubectl, Path(scratch))
        yield opened
        _wait_until_going(opened)


def run(opened: Cluster, chosen: list[Check], threads: int) -> dict[str, Outcome]:
    """Every chosen check in a pool of threads; each in its own namespace, also beside those of an earlier run
    on the same cluster that are still going.

    A real namespace controller needs a second and more for each namespace: those that wait for one begin.
    """
    first = sorted(chosen, key=lambda check: check.group != FIRST_GROUP)
    with ThreadPoolExecutor(threads) as pool:
        outcomes = pool.map(lambda check: _run(opened, check, f"c{next(opened.numbers):03d}"), first)
        return {check.id: outcome for check, outcome in zip(first, outcomes, strict=True)}


def _run(opened: Cluster, check: Check, number: str) -> Outcome:
    api = Api(opened, number)
    begin = time.monotonic()
    try:
        seen = normalised(check.function(api), f"{number}-{opened.run}")
        return Outcome(seen, None, time.monotonic() - begin)
    except Exception:  # noqa: BLE001 - whatever a check raises is its failure, and is told in full
        return Outcome(None, traceback.format_exc(limit=-6), time.monotonic() - begin)
    finally:
        api.clean()


def _wait_until_going(opened: Cluster, seconds: float = 60.0) -> None:
    """A namespace that is still active would stay for ever; one that is going needs nobody to wait."""
    deadline = within(seconds)
    while time.monotonic() < deadline:
        items = opened.http.get("/api/v1/namespaces").json()["items"]
        active = [item for item in items if item["status"]["phase"] == "Active"]
        if not any(item["metadata"]["name"].endswith(opened.run) for item in active):
            return
        time.sleep(0.5)
    raise AssertionError(f"namespaces of run {opened.run} stay after {seconds:.0f} s")
