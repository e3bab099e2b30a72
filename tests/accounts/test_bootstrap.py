"""`manage.py bootstrap`: the first start of an installation, once and again, and several at once."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import Client
from django.utils import timezone

from apps.accounts import first_engineer
from apps.accounts.models import Invitation, User
from apps.accounts.people import PersonWish
from apps.audit import services as audit
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from tests import database
from tests.cluster.registering import CONFIG
from tests.conftest import Cast
from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]
ADA = ("--name", "Ada Lovelace", "--email", "ada@example.org")
PASSWORD = "a long enough password"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def redis(no_broker: None) -> None:
    """A first start needs none."""


def bootstrap(*words: str) -> str:
    told = StringIO()
    call_command("bootstrap", *words, stdout=told)
    return told.getvalue()


def link_in(told: str) -> str:
    (found,) = re.findall(r"^http://127\.0\.0\.1:8000(/invite/\S+)$", told, re.MULTILINE)
    return str(found)


def comes_by(path: str) -> bool:
    return Client().post(path, {"password": PASSWORD, "again": PASSWORD}).status_code == 303


@pytest.mark.both_databases
def test_the_first_engineer_chooses_a_password_by_the_link_and_is_in_the_record() -> None:
    path = link_in(bootstrap(*ADA))
    ada = User.objects.get()
    assert (ada.username, ada.display_name, ada.email) == ("ada", "Ada Lovelace", "ada@example.org")
    assert ada.platform_role == "platform"
    assert comes_by(path)
    browser = Client()
    assert browser.login(username="ada", password=PASSWORD)
    assert browser.get("/console/users/").status_code == 200
    made = AuditEvent.objects.get(action="user.create")
    assert (made.actor, made.target_name) == ("system:bootstrap", "ada")
    assert not audit.verify().breaches


def test_a_second_run_makes_nothing_and_says_what_is_there() -> None:
    path = link_in(bootstrap(*ADA))
    told = bootstrap("--email", "bob@example.org")
    assert "ada was made before and has not come yet; its link works until" in told
    assert "--new-link" in told
    assert (User.objects.count(), Invitation.objects.count()) == (1, 1)
    assert comes_by(path)
    assert bootstrap(*ADA) == "Platform engineers: ada. Nothing was made.\n"


@pytest.mark.both_databases
def test_a_new_link_ends_the_old_one_and_there_is_none_once_somebody_has_come() -> None:
    old = link_in(bootstrap(*ADA))
    new = link_in(bootstrap("--new-link"))
    assert not comes_by(old)
    assert comes_by(new)
    with pytest.raises(CommandError, match="ada can sign in already") as refused:
        bootstrap("--new-link")
    assert "Console, Users" in str(refused.value)


def test_a_link_that_is_over_is_told_as_such() -> None:
    bootstrap(*ADA)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(days=1))
    assert "no link of it works any more. --new-link makes another." in bootstrap()


def test_without_a_name_or_with_a_wrong_one_nothing_is_made() -> None:
    for words, named in (
        ((), "username: Nobody is a platform engineer yet: name one."),
        (("--username", "not a name"), "username: Enter a valid username"),
        (("--username", "ada", "--email", "nowhere"), "email: Enter a valid email"),
    ):
        with pytest.raises(CommandError, match=named):
            bootstrap(*words)
    bootstrap(*ADA)
    with pytest.raises(CommandError, match="The engineers are ada"):
        bootstrap("--new-link", "--username", "eve")
    assert User.objects.count() == 1


def test_where_everybody_is_disabled_there_is_a_way_back_in(cast: Cast) -> None:
    User.objects.filter(platform_role="platform").update(is_active=False)
    assert comes_by(link_in(bootstrap(*ADA)))


def test_a_database_that_is_not_migrated_is_left_alone() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'metering'")
    with pytest.raises(CommandError, match=r"not applied.*manage\.py migrate"):
        bootstrap(*ADA)
    assert not User.objects.exists()


def test_the_first_cluster_is_registered_by_its_operators_file_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.write_text(yaml.safe_dump(CONFIG))
    words = (*ADA, "--cluster", "north", "--kubeconfig")
    assert "Cluster north is registered." in bootstrap(*words, str(one))
    assert "Cluster north was registered before." in bootstrap(*words, str(one))
    assert f"it is reached by {other} now" in bootstrap(*words, str(other))
    row = Cluster.objects.get()
    assert (row.name, row.kubeconfig_path, row.generation) == ("North", str(other), 2)
    actors = AuditEvent.objects.filter(action="cluster.register").values_list("actor", flat=True)
    assert list(actors) == ["system:bootstrap"] * 2


def test_a_cluster_that_cannot_be_registered_is_told_and_the_engineer_stays(tmp_path: Path) -> None:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    with pytest.raises(CommandError, match="serviceaccount/token is not there"):
        bootstrap(*ADA, "--in-cluster", str(folder))
    assert User.objects.count() == 1
    assert not Cluster.objects.exists()


@pytest.mark.programs
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the threads below are PostgreSQL's")
def test_of_several_first_starts_at_once_one_makes_the_engineer(tmp_path: Path) -> None:
    """Processes of their own, on one SQLite file."""
    shutil.copy(database.FOLDER / database.digest(), tmp_path / "allotment.sqlite3")
    environment = {
        **os.environ,
        "ALLOTMENT_HOME": str(tmp_path),
        "ALLOTMENT_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    running = [
        subprocess.Popen(
            [sys.executable, "manage.py", "bootstrap", "--email", f"{name}@example.org"],
            env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("ada", "bob", "kim")
    ]  # fmt: skip
    told = [each.communicate(timeout=patient(240)) for each in running]
    assert [each.returncode for each in running] == [0, 0, 0], told
    assert sum("/invite/" in out for out, _ in told) == 1
    assert sum("was made before" in out for out, _ in told) == 2


@pytest.mark.postgres
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_several_first_starts_at_once_one_makes_the_engineer_on_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's turn is above, in processes")
    now = timezone.now()

    def begin(name: str) -> first_engineer.Start:
        try:
            return first_engineer.begin(wish=PersonWish(name), new_link=False, now=now)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        started = list(pool.map(begin, ("ada", "bob", "kim")))
    assert [each.is_new for each in started].count(True) == 1
    assert len({each.engineers for each in started}) == 1
    assert User.objects.count() == 1
