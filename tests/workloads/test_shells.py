"""SSH into workloads: who comes in, what is run for them, and when it ends."""

import subprocess
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from apps.accounts.actors import Credential
from apps.accounts.models import ApiToken, SshKey, User
from apps.accounts.services import TokenWish, make_token
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.watching.services.capabilities import Capability
from apps.errors import Conflict, NotAllowed, NotFound
from apps.tenants.live.services.stream_guard import standings
from apps.tenants.models import Membership, Tenant
from apps.tenants.people.services import service_accounts
from apps.tenants.people.services.service_accounts import AccountWish
from apps.tenants.specs import Isolation, Role
from apps.web.problems.refusals import InvalidToken
from apps.workloads.models import Opening, Workload, WorkloadEvent
from apps.workloads.opening.rules import shell_commands, shell_use
from apps.workloads.opening.rules.hosts import Domain, ShellName, shell_name
from apps.workloads.opening.selectors import shell_access, shell_setup
from apps.workloads.opening.services import openings, reaching, shells
from apps.workloads.specs import OpenTo, Phase
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.workloads.asking import submit


def key_of(user: User) -> SshKey:
    return SshKey.objects.create(
        user=user, name="laptop", text=f"ssh-ed25519 {user.username}", fingerprint=f"SHA256:{user.username}",
        created_at=NOW,
    )  # fmt: skip


@pytest.fixture
def row(cast: Cast) -> Workload:
    """Rosa's notebook, which runs, in a team whose policy lets its members in."""
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=True)
    made = submit(cast, slug="nb")
    Workload.objects.filter(pk=made.pk).update(phase=Phase.RUNNING, started_at=NOW)
    return Workload.objects.get(pk=made.pk)


def enter(user: User) -> Workload:
    key = SshKey.objects.filter(user=user).first() or key_of(user)
    return shells.enter(key=key, name=ShellName("vision", "nb"), now=NOW).row


def offered(user: User, row: Workload) -> str:
    """The code of a terminal, as the page of somebody who is signed in gets it."""
    client = Client()
    client.force_login(user)
    credential = Credential(user.pk, session=str(client.session.session_key))
    made = shells.offer_terminal(actor=as_actor(user), credential=credential, workload=row, now=NOW)
    return made.code


def come_in(row: Workload, code: str, *, is_page: bool = True, now: datetime = NOW) -> shells.Inside:
    return shells.enter_terminal(workload=row.pk, code=code, is_page=is_page, now=now)


def by_rest(row: Workload, text: str) -> Any:
    """What REST answers to a token that asks for a terminal."""
    address = f"/api/v1/workloads/{row.pk}/terminal"
    return Client().post(address, "{}", "application/json", headers={"Authorization": f"Bearer {text}"})


def token_of(user: User, *scopes: str) -> tuple[ApiToken, str]:
    """A token of that person with these scopes, and its text."""
    wish = TokenWish("ci", scopes, ())
    return make_token(actor=as_actor(user), wish=wish, now=timezone.now())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/vision/nb", ShellName("vision", "nb")),
        ("/vision/train/2", ShellName("vision", "train", 2)),
        ("/vision", None), ("/", None), ("/vision//2", None), ("/vision/train/x", None), ("/a/b/1/2", None),
    ],
)  # fmt: skip
def test_an_address_names_a_tenant_a_workload_and_a_pod(path: str, name: ShellName | None) -> None:
    assert shell_name(path) == name
    assert name is None or shell_name(name.path) == name


def test_the_host_for_ssh_is_nobodys_workload() -> None:
    domain = Domain("https", "apps.example.net")
    assert domain.shells_url == "wss://ssh.apps.example.net"
    assert domain.workload(domain.shells) is None


@pytest.mark.parametrize(
    ("command", "sent", "written", "code"),
    [
        (shell_commands.shell(None), "echo $((6*7))\nexit 3\n", "42\n", 3),
        (shell_commands.command("cat; echo $TERM", "xterm'; echo x"), "kept", "keptxterm'; echo x\n", 0),
        (shell_commands.command("exit 7", None), "", "", 7),
    ],
)
def test_what_is_asked_for_is_what_sh_runs(
    command: shell_commands.Command, sent: str, written: str, code: int
) -> None:
    ended = subprocess.run(command, input=sent, capture_output=True, text=True, check=False, timeout=20)
    assert (ended.stdout, ended.returncode) == (written, code)


def test_an_image_without_a_file_server_says_what_to_do() -> None:
    words = (*shell_commands.sftp()[:2], shell_commands.sftp()[2].replace("/usr/", "/nowhere/"))
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    assert (ended.stderr.strip(), ended.returncode) == (shell_commands.NO_SFTP, 127)


def test_its_owner_comes_in_and_others_once_it_is_shared(cast: Cast, row: Workload) -> None:
    assert enter(cast.rosa).pk == row.pk
    for stranger, refused in ((cast.leon, NotAllowed), (cast.petra, NotAllowed), (cast.otto, NotFound)):
        with pytest.raises(refused):
            enter(stranger)
    row.spec["notebook"]["open_to"] = OpenTo.TEAM
    row.save()
    assert enter(cast.leon).pk == row.pk
    with pytest.raises(NotAllowed):
        enter(cast.petra)


def test_whoever_came_in_is_in_the_record_with_their_key(cast: Cast, row: Workload) -> None:
    enter(cast.rosa)
    event = AuditEvent.objects.filter(action="workload.shell").get()
    assert (event.actor, event.changes) == (
        "researcher",
        {"of": [None, "researcher"], "key": [None, "SHA256:researcher"]},
    )
    assert not WorkloadEvent.objects.filter(workload=row, reason="Shell").exists()
    assert SshKey.objects.get(user=cast.rosa).used_at == NOW


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"has_shell": False}, "Shell access is off in Vision."),
        (
            {"isolation": Isolation.VCLUSTER},
            "North does not enforce what keeps people out of the control plane of Vision.",
        ),
    ],
)
def test_the_tenants_policy_and_isolation_decide(
    cast: Cast, row: Workload, change: dict[str, Any], words: str
) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(**change)
    with pytest.raises(Conflict) as refused:
        enter(cast.rosa)
    assert refused.value.detail == words
    assert shell_setup.command_for(as_actor(cast.rosa), Workload.objects.get(pk=row.pk)) == ""


def test_beside_a_virtual_cluster_it_is_entered_where_policies_fence_its_control_plane(
    cast: Cast, row: Workload
) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(isolation=Isolation.VCLUSTER)
    place: shell_access.Place = (row.pk, None)
    before = shell_access.standings([place])[place]
    enforces = Capability(name="policies", available=True, version=None, message="", missing=[])
    Cluster.objects.filter(pk=row.cluster_id).update(capabilities=[enforces])
    assert enter(cast.rosa).pk == row.pk
    fresh = Workload.objects.get(pk=row.pk)
    assert shell_setup.command_for(as_actor(cast.rosa), fresh) == "ssh nb.vision.allotment"
    assert shell_access.standings([place])[place] != before, "whoever is inside is asked again"


def test_what_does_not_run_is_not_entered(cast: Cast, row: Workload) -> None:
    Workload.objects.filter(pk=row.pk).update(phase=Phase.STOPPED)
    with pytest.raises(Conflict, match="It is not ready: stopped"):
        enter(cast.rosa)
    row.refresh_from_db()
    assert shell_setup.command_for(as_actor(cast.rosa), row) == "ssh nb.vision.allotment"


@pytest.mark.parametrize("end", ["policy", "key", "stopped", "membership", "restart"])
def test_whatever_ends_the_right_changes_what_is_watched_and_refuses(
    cast: Cast, row: Workload, end: str
) -> None:
    key, actor = key_of(cast.rosa), as_actor(cast.rosa)
    pk = key.pk
    place: shell_access.Place = (row.pk, pk)
    before, right = shell_access.standings([place])[place], shell_access.right(actor, row.pk, pk)
    match end:
        case "policy":
            Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=False)
        case "key":
            key.delete()
        case "stopped":
            Workload.objects.filter(pk=row.pk).update(phase=Phase.STOPPED)
        case "restart":
            Workload.objects.filter(pk=row.pk).update(started_at=None)
        case "membership":
            # That of a person is watched for every stream alike (`stream_guard.standings`).
            Membership.objects.filter(user=cast.rosa).delete()
    assert end == "membership" or shell_access.standings([place])[place] != before
    try:
        assert shell_access.right(actor, row.pk, pk) != right
    except (Conflict, NotAllowed, NotFound):
        assert end != "restart"


def test_pods_are_counted_in_the_order_of_their_names(cast: Cast, row: Workload) -> None:
    for name, phase in (("nb-1", "Running"), ("nb-0", "Running"), ("nb-2", "Pending")):
        MirrorObject.objects.create(
            cluster=row.cluster, kind="Pod", namespace=row.tenant.object_name, name=name, uid=name,
            owner_kind="workload", owner_id=str(row.pk), body={"status": {"phase": phase}},
        )  # fmt: skip
    assert [reaching.pod_at(row, place) for place in (0, 1)] == ["nb-0", "nb-1"]
    with pytest.raises(Conflict, match="2 of its pods run"):
        reaching.pod_at(row, 2)


def test_the_server_is_known_by_a_key_of_this_installation(settings: Any) -> None:
    line = shell_setup.known_hosts()
    assert line.startswith("allotment ssh-ed25519 AAAA")
    assert line == shell_setup.known_hosts()
    settings.SECRET_KEY = "another"
    assert line != shell_setup.known_hosts()


def test_where_there_is_no_door_there_is_nothing_to_set_up(settings: Any) -> None:
    assert "ProxyCommand ~/.ssh/allotment-ssh ws://ssh.localhost" in shell_setup.config()
    settings.CONFIG = settings.CONFIG.model_copy(update={"mode": "production", "apps_url": ""})
    assert shell_setup.config() == ""


def test_a_code_opens_one_terminal_of_its_workload_soon_and_as_its_person(cast: Cast, row: Workload) -> None:
    other = submit(cast, slug="nb-2")
    Workload.objects.filter(pk=other.pk).update(phase=Phase.RUNNING, started_at=NOW)
    code = offered(cast.rosa, row)
    for workload, at in ((other, NOW), (row, NOW + openings.CODE_LIFE)):
        with pytest.raises(NotFound):
            come_in(workload, code, now=at)
    with pytest.raises(NotAllowed, match="made for a browser"):
        come_in(row, code, is_page=False)
    inside = come_in(row, code)
    assert (inside.row.pk, inside.actor().user_id, inside.key) == (row.pk, cast.rosa.pk, None)
    with pytest.raises(NotFound):
        come_in(row, code)
    event = AuditEvent.objects.filter(action="workload.shell").get()
    assert (event.actor, event.changes) == (
        "researcher",
        {"of": [None, "researcher"], "by": [None, "terminal"]},
    )
    Session.objects.all().delete()
    with pytest.raises(InvalidToken):
        inside.actor()


def test_codes_of_pages_and_of_terminals_are_not_for_each_other(cast: Cast, row: Workload) -> None:
    terminal = offered(cast.rosa, row)
    with pytest.raises(NotFound):
        openings.enter(workload=row.pk, code=terminal, browser="", now=NOW)
    with pytest.raises(NotFound):
        openings.confirm(
            actor=as_actor(cast.rosa), credential=Credential(cast.rosa.pk), workload=row, code=terminal,
            browser="b" * 64, now=NOW,
        )  # fmt: skip
    made = openings.open_workload(
        actor=as_actor(cast.rosa), credential=Credential(cast.rosa.pk, session="s"), workload=row, now=NOW
    )
    with pytest.raises(NotFound):
        come_in(row, made.url.rpartition("=")[2])


def test_who_has_no_shell_gets_no_code_and_none_that_outlives_the_right(cast: Cast, row: Workload) -> None:
    with pytest.raises(NotAllowed):
        offered(cast.leon, row)
    code = offered(cast.rosa, row)
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=False)
    with pytest.raises(Conflict, match="Shell access is off"):
        come_in(row, code)


def test_a_token_gets_a_terminal_that_ends_with_it_and_is_recorded_by_it(
    cast: Cast, row: Workload, settings: Any
) -> None:
    Workload.objects.filter(pk=row.pk).update(spec={**row.spec, "notebook": {"open_to": OpenTo.TEAM}})
    token, text = token_of(cast.leon, "workloads:write")
    answer = by_rest(row, text)
    assert answer.status_code == 200, answer.content
    said = answer.json()
    assert said["url"] == f"{settings.CONFIG.apps.terminals_url}/{row.pk}"
    left = datetime.fromisoformat(said["expires_at"]) - timezone.now()
    assert timedelta() < left <= openings.CODE_LIFE
    inside = come_in(row, said["code"], is_page=False, now=timezone.now())
    assert (inside.actor().user_id, inside.actor().token_id) == (cast.leon.pk, token.pk)
    event = AuditEvent.objects.filter(action="workload.shell").get()
    assert (event.actor, event.token) == ("lead", token.prefix)
    assert WorkloadEvent.objects.get(workload=row, reason="Shell").message == (
        "lead came in by a terminal of a program."
    )
    before = standings({inside.credential})[inside.credential]
    ApiToken.objects.filter(pk=token.pk).update(revoked_at=NOW)
    assert standings({inside.credential})[inside.credential] != before
    with pytest.raises(InvalidToken):
        inside.actor()


@pytest.mark.parametrize(
    ("scopes", "policy", "status", "words"),
    [
        (["workloads:read"], {"has_shell": True}, 403, "This needs a token with the scope workloads:write."),
        ([], {"has_shell": False}, 409, "Shell access is off in Vision."),
    ],
)
def test_a_token_that_reads_and_a_policy_that_is_off_give_no_terminal(
    cast: Cast, row: Workload, scopes: list[str], policy: dict[str, Any], status: int, words: str
) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(**policy)
    answer = by_rest(row, token_of(cast.rosa, *scopes)[1])
    assert (answer.status_code, answer.json()["detail"]) == (status, words)
    assert not Opening.objects.exists()


def test_a_service_account_is_told_what_to_use_instead(cast: Cast, row: Workload) -> None:
    lead, wish = as_actor(cast.leon), AccountWish(cast.vision, "ci", "CI", Role.MEMBER)
    account = service_accounts.create_account(actor=lead, wish=wish, now=NOW)
    Workload.objects.filter(pk=row.pk).update(owner=account.user)
    token = TokenWish("ci", (), ())
    _, text = service_accounts.create_token(actor=lead, account=account, wish=token, now=timezone.now())
    answer = by_rest(row, text)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert "kubectl exec" in answer.json()["hint"]


def test_typing_is_noted_while_it_runs_and_believed_for_that_run_and_a_while(
    cast: Cast, row: Workload
) -> None:
    shells.note_use(row.pk, NOW)
    row.refresh_from_db()
    assert shell_use.words(row.shell_used_at, row.started_at, NOW) == (
        f"A shell is in use, last at {NOW:%H:%M} UTC."
    )
    assert not shell_use.is_in_use(row.shell_used_at, row.started_at, NOW + shell_use.RECENT * 2)
    assert not shell_use.is_in_use(row.shell_used_at, NOW + shell_use.RECENT, NOW + shell_use.RECENT)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.STOPPED)
    shells.note_use(row.pk, NOW + shell_use.RECENT)
    row.refresh_from_db()
    assert row.shell_used_at == NOW
