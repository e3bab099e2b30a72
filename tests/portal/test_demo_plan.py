"""What the demo starts, before anything is started."""

import argparse
from pathlib import Path

from portal import demo, story


def options(**changes: object) -> argparse.Namespace:
    given = {"port": 8000, "cluster": "", "fleet": "lab", "history": 7}
    return argparse.Namespace(**{**given, **changes})


def prepare(**changes: object) -> str:
    home = Path("/nowhere/home")
    return demo._parts(home, options(**changes), 6379, home / "sandbox" / "kubeconfig")["prepare"]


def test_the_past_is_of_the_tenants_of_the_story() -> None:
    assert tuple(team.slug for team in story.TEAMS) == demo.TENANTS


def test_a_past_comes_in_behind_the_seed_and_only_once() -> None:
    words = prepare(history=3)
    assert words.index("seed_demo") < words.index("sandbox history") < words.index("import_history")
    assert "--days 3" in words
    assert "test -e /nowhere/home/history/imported ||" in words


def test_without_days_or_on_a_real_cluster_there_is_no_past() -> None:
    assert "history" not in prepare(history=0)
    assert "history" not in prepare(cluster="/some/kubeconfig")
