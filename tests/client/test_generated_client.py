"""A client that is generated from the document: ruff and mypy accept it, and the story runs with it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from portal.api.declared.description import DOCUMENT
from tests.ports import free_port
from tests.story.conftest import running

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(420)]
HERE = Path(__file__).parent
PROGRAMS = Path(sys.executable).parent


def run(folder: Path, *command: str) -> str:
    """What the program said; fails with it unless it ended well."""
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated package and the story beside it."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_bytes(DOCUMENT.forms[0].body)
    shutil.copy(HERE / "story.py", folder)
    generate = ("openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none")
    chosen = ("--config", str(HERE / "generator.yaml"), "--output-path", "allotment_client")
    said = run(folder, *generate, *chosen, "--fail-on-warning")
    assert "WARNING" not in said.upper(), said
    return folder


def test_every_operation_has_its_function(workshop: Path) -> None:
    document = json.loads((workshop / "openapi.json").read_bytes())
    named = {each["operationId"] for item in document["paths"].values() for each in item.values()}
    made = {path.stem for path in (workshop / "allotment_client" / "api").glob("*/*.py")} - {"__init__"}
    assert made == named
    assert len(made) > 150


def test_ruff_accepts_it(workshop: Path) -> None:
    run(workshop, "ruff", "check", "--isolated", "--ignore", "PYI036", "allotment_client")


def test_mypy_accepts_it_and_the_story_strictly(workshop: Path) -> None:
    config = str(HERE / "mypy.ini")
    run(workshop, "mypy", "--config-file", config, "allotment_client", "story.py")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A demo on a simulated fleet: its address, and a researcher's token."""
    home, port = tmp_path_factory.mktemp("home"), free_port(run=2)
    with running(home, port, "--fleet", "lab"):
        yield f"http://127.0.0.1:{port}", json.loads((home / "tokens.json").read_text())["researcher"]


def test_the_story_runs_with_it(workshop: Path, installation: tuple[str, str]) -> None:
    told = run(workshop, sys.executable, "story.py", *installation)
    assert told.split() == ["watch", "change", "stop_and_resume", "count_up", "end"]


def test_it_is_made_of_what_is_served(workshop: Path, installation: tuple[str, str]) -> None:
    served = httpx.get(f"{installation[0]}/api/v1/openapi.json", trust_env=False)
    assert served.headers["Content-Encoding"] == "gzip"
    assert served.json() == json.loads((workshop / "openapi.json").read_bytes())
