"""A web process makes what its first requests need before it takes connections."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.web import collector
from tests.house.reading import ROOT

pytestmark = pytest.mark.programs

ALONE = """
import asyncio, gc, json
from portal import asgi
from django.template import Template
from django.test import Client
from portal.api.declared import description

made, compile_nodes = [], Template.compile_nodelist
Template.compile_nodelist = lambda self: made.append(self.name) or compile_nodes(self)

def told():
    return {"frozen": gc.get_freeze_count(), "rounds": gc.get_threshold(), "compiled": len(made)}

async def start():
    asked = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))
    sent = []
    async def receive():
        sent.append(told())
        return next(asked)
    async def send(message):
        sent.append(message["type"])
    await asgi.application({"type": "lifespan"}, receive, send)
    return sent

sent = asyncio.run(start())
document = description.DOCUMENT.forms
del made[:]
answers = [Client().get(path, SERVER_NAME="localhost").status_code for path in ("/sign-in/", "/api/", "/no/")]
kept = description.DOCUMENT.forms is document
print(json.dumps({"sent": sent, "answers": answers, "compiled": made, "kept": kept}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """From a process of its own: here the collector would keep what other tests have made."""
    home: Path = tmp_path_factory.mktemp("home")
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "ALLOTMENT_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", ALONE], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_it_says_that_it_has_started_once_it_is_warm(told: dict[str, Any]) -> None:
    cold, started, warm, ended = told["sent"]
    assert (started, ended) == ("lifespan.startup.complete", "lifespan.shutdown.complete")
    assert (cold["frozen"], cold["compiled"]) == (0, 0)
    assert warm["compiled"] > 100  # templates of ours
    assert warm["rounds"] == [collector.YOUNG, collector.MIDDLE, collector.OLD]


def test_the_collector_leaves_out_what_stays(told: dict[str, Any]) -> None:
    assert told["sent"][2]["frozen"] > 100_000


def test_no_first_page_compiles_a_template(told: dict[str, Any]) -> None:
    assert told["answers"] == [200, 200, 404]
    assert told["compiled"] == []
    assert told["kept"]


@pytest.mark.parametrize(
    ("file", "told"), [("Procfile", "--lifespan on"), ("Dockerfile", '"--lifespan", "on"')]
)
def test_the_web_process_is_started_so_that_it_is_warm(file: str, told: str) -> None:
    (line,) = (each for each in (ROOT / file).read_text().splitlines() if "portal.asgi:application" in each)
    assert told in line
