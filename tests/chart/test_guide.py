"""docs/installing.md: its commands are those that test_release.py runs; the others say what is true."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command, get_commands

from apps.accounts.models import User
from apps.accounts.specs import PlatformRole
from apps.cluster.models import Cluster
from tests.chart.guide import GUIDE, blocks
from tests.chart.helm import SECRETS
from tests.cluster.registering import CONFIG


def values_of_the_guide() -> str:
    """What its `cat` writes into values.yaml."""
    return blocks()["4. Values"].split("<<'END'\n")[1].rsplit("END\n", 1)[0]


def test_the_guide_goes_from_nothing_to_nothing() -> None:
    assert [heading.lstrip("0123456789. ") for heading in blocks()] == [
        "What the cluster needs", "What is secret", "Values", "Install", "Upgrade", "Roll back", "Remove",
    ]  # fmt: skip


def test_the_secret_of_the_guide_has_the_keys_that_the_chart_asks_for() -> None:
    made = re.findall(r"--from-file=(\S+)", blocks()["3. What is secret"])
    assert made == list(SECRETS)


def test_the_values_of_the_guide_are_yaml() -> None:
    assert yaml.safe_load(values_of_the_guide())["settings"]["public_url"].startswith("https://")


@pytest.mark.usefixtures("db", "no_broker")
def test_the_first_engineer_and_the_first_cluster_come_by_the_guides_own_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = re.findall(
        r"python (manage\.py bootstrap .+)$", GUIDE.read_text().replace("\\\n", ""), re.MULTILINE
    )
    words = shlex.split(line)[1:]
    at = words.index("--kubeconfig") + 1
    assert words[at] == "/etc/allotment/in-cluster/kubeconfig"
    words[at] = str(tmp_path / "kubeconfig")
    Path(words[at]).write_text(yaml.safe_dump(CONFIG))
    call_command(*words)
    assert User.objects.get().platform_role == PlatformRole.PLATFORM
    assert "Open this once" in capsys.readouterr().out
    values = yaml.safe_load(values_of_the_guide())
    assert Cluster.objects.get().slug == values["settings"]["door_cluster"]


def test_every_command_of_the_guide_is_one_of_the_products() -> None:
    named = re.findall(r"manage\.py (\w+)", GUIDE.read_text())
    assert {"bootstrap", "doctor", "migrate"} <= set(named) <= set(get_commands())
    assert "shell" not in named
