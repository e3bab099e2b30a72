"""What the demo starts, before anything is started."""

import argparse
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from honcho.printer import Message

from apps.metering.detector import trace
from apps.metering.detector.gpu_models import board_of
from apps.metering.detector.judge import judge_case
from apps.metering.detector.rules import Case
from apps.metering.detector.rules import Finding as Label
from apps.metering.detector.usage import read_usage
from portal import demo, story
from sandbox.fleet import behaviours, history, load, telemetry
from sandbox.fleet.cli import _teams
from sandbox.fleet.devices import Device
from sandbox.fleet.spec import load_fleet
from tests.patience import until

ASK = """
from django.templatetags.static import static
from django.test import Client
url = static("css/allotment.css")
answer = Client(SERVER_NAME="127.0.0.1").get(url)
print(answer["Cache-Control"].replace(" ", ""), url)
"""


def options(**changes: object) -> argparse.Namespace:
    given = {"port": 8000, "cluster": "", "fleet": "lab", "history": 7}
    return argparse.Namespace(**{**given, **changes})


def prepare(**changes: object) -> str:
    home = Path("/nowhere/home")
    return demo._parts(home, options(**changes), 6379, home / "sandbox" / "kubeconfig")["prepare"]


def test_the_past_is_of_the_tenants_and_people_of_the_story() -> None:
    teams = _teams(demo.TEAMS)
    assert {team.slug: set(team.members) for team in story.TEAMS} == {
        tenant: set(people) for tenant, people in teams.items()
    }
    assert all(len(people) > 1 for people in teams.values())


def test_a_past_comes_in_behind_the_seed_and_only_once() -> None:
    words, written = prepare(history=3), demo._written(Path("/nowhere/home"), options(history=3))
    assert words.index("seed_demo") < words.index("import_history")
    assert "sandbox history --days 3" in written
    assert all("test -e /nowhere/home/history/imported ||" in each for each in (words, written))


def test_what_runs_beside_ends_with_the_demo(tmp_path: Path) -> None:
    """A SIGTERM while the demo still migrates leaves no process behind."""
    noted = tmp_path / "pid"
    noted.touch()

    def stopped() -> None:
        with demo._beside(f"echo $$ >{noted}; sleep 60; true", os.environ):
            until(noted.read_text, "it to have begun", 10)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit):
        stopped()
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


@pytest.mark.parametrize("breaks", [0, 2, 3])
def test_the_past_is_told_of_and_is_brought_in_again_where_it_ended_half_way(
    tmp_path: Path, breaks: int
) -> None:
    python, tries, simulated = tmp_path / "python", tmp_path / "tries", tmp_path / "simulated"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = manage.py ] || {{ echo >>{simulated}; exit; }}\n'
        f"echo >>{tries}\n[ $(wc -l <{tries}) -gt {breaks} ]\n"
    )
    python.chmod(0o755)
    (tmp_path / "history").mkdir()
    words = f"{demo._written(tmp_path, options(history=2))}; {demo._past(tmp_path, options(history=2))}"

    def start() -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run(["/bin/sh", "-c", words], env=env, capture_output=True, text=True, check=True)

    done = start()
    told = done.stdout.splitlines()
    assert told[0] == "2 days of simulated history come in behind this; the pages say how far."
    assert ("did not come in" in told[-1], (tmp_path / "history" / "imported").exists()) == (
        breaks == 3,
        breaks < 3,
    )
    assert done.stderr == ""
    # The next start brings in what is missing of the same days.
    start()
    assert (tmp_path / "history" / "imported").exists()
    assert simulated.read_text() == "\n"


def test_two_who_idle_are_judged_by_a_short_policy_of_their_own() -> None:
    """A hoarder and a keep-alive of the lead's own team, which nothing stops but a person."""
    soon = [scene for scene in story.SCENES if scene.idle_policy and scene.tenant == "vision"]
    assert {scene.behaviour for scene in soon} == {"idle-hoarder", "keepalive"}
    for scene in soon:
        assert scene.idle_policy == {"action": "warn", "for_seconds": 120}


@pytest.mark.parametrize(
    "scene", [each for each in story.SCENES if each.idle_policy], ids=lambda scene: str(scene.slug)
)
def test_the_detector_finds_each_of_them_after_four_simulated_minutes(scene: story.Scene) -> None:
    """By the load that the sandbox gives their pods, whatever it draws for them, and by their own policy."""
    offers = {offer.resource: offer for offer in history.offers(load_fleet("lab"), 7)}
    device = offers[f"allotment.dev/{scene.offer}"].devices[0]
    fixed = {name: float(value) for name, value in scene.drawn.items()}
    policy = scene.idle_policy or {}
    held = trace.Allocation(
        scene.slug, model=device.gpu.model.product_name, sms=device.multiprocessors,
        tdp_w=board_of(device.gpu.model.product_name).tdp_w, end=240.0,
        idle_window_s=float(policy["for_seconds"]),
    )  # fmt: skip
    wanted = Label.EVASION if scene.behaviour == "keepalive" else Label.HOARDER
    for pod in range(20):
        told = behaviours.truth(7, f"pod-{pod}", behaviours.Behaviour(scene.behaviour), fixed)
        samples = [_sample(told, device, 30.0 * step) for step in range(1, 9)]
        assert judge_case(Case(read_usage(trace.clean(held, samples)))).labels == (wanted,), pod


def _sample(told: behaviours.Truth, device: Device, age: float) -> trace.Sample:
    used = load.sample(told, age, device, hour=12.0)
    assert used
    watts = telemetry.watts_of(device.gpu, [(device, used)])
    return trace.Sample(
        age, used.busy, used.sm, used.occupancy, used.tensor, used.dram, used.memory_mib,
        float(device.memory_mib), watts, used.processes, 0,
    )  # fmt: skip


def test_without_days_or_on_a_real_cluster_there_is_no_past() -> None:
    assert "history" not in prepare(history=0)
    assert "history" not in prepare(cluster="/some/kubeconfig")


@pytest.mark.programs
def test_the_demo_names_its_static_files_by_their_content(tmp_path: Path) -> None:
    """As production does: what has another content has another name, and may be kept for ever."""
    env = demo._environment(tmp_path, 8000, 6379)
    for words in (
        ["collectstatic", "--noinput", "--verbosity", "0"],
        ["shell", "--verbosity", "0", "-c", ASK],
    ):
        made = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=demo.ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
    kind, url = made.stdout.split()
    assert re.fullmatch(r"/static/css/allotment\.[0-9a-f]{12}\.css", url)
    assert kind == "max-age=315360000,public,immutable"


def test_where_nobody_reads_any_more_the_demo_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make demo | head` left everything running: what cannot be written raised within the supervisor."""
    read, write = os.pipe()
    os.close(read)
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    printer = demo._Printer(os.fdopen(write, "w", buffering=1))
    for name in ("prepare", "web"):
        printer.write(Message("line", b"a line\n", datetime.now(UTC), name, ""))
    assert raised == [signal.SIGTERM]
