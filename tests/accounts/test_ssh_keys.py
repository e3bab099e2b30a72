"""SSH keys: whose they are, how many, who may add one, and what REST says of them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from apps.accounts import selectors
from apps.accounts.models import SshKey, User
from apps.accounts.specs import Actor, system_actor
from apps.accounts.ssh_keys import keeping
from apps.accounts.ssh_keys.public_keys import PRIVATE, read
from apps.audit.models import AuditEvent
from apps.errors import AlreadyExists, Conflict, DomainError, Invalid, NotAllowed
from apps.notices.models import Notice
from apps.web.models import IdempotencyKey
from tests.accounts import ssh_lines
from tests.accounts.ssh_lines import line
from tests.conftest import Cast, as_actor
from tests.factories import join, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.usefixtures("no_broker")]
urls = pytest.mark.urls("tests.web.urls")
Bearer = Callable[..., Client]
KEYS, JSON = "/api/v1/me/ssh-keys", "application/json"


def add(actor: Actor, text: str = line("ada", "ada@laptop"), name: str = "") -> SshKey:
    return keeping.add_ssh_key(actor=actor, name=name, text=text, now=timezone.now())


def refused(kind: type[DomainError], *asked: Any) -> DomainError:
    count = SshKey.objects.count()
    with pytest.raises(kind) as refusal:
        add(*asked)
    assert type(refusal.value) is kind
    assert SshKey.objects.count() == count
    return refusal.value


def test_a_key_is_kept_without_its_comment_recorded_and_its_owner_hears_of_it(actor: Actor) -> None:
    key = add(actor)
    assert (key.name, key.text, key.type, key.used_at) == ("ada@laptop", line("ada"), "ssh-ed25519", None)
    assert key.fingerprint == read(line("ada")).fingerprint
    event, notice = AuditEvent.objects.get(), Notice.objects.get()
    assert (event.action, event.target_kind, event.target_name) == (
        "ssh-key.create",
        "ssh-key",
        key.fingerprint,
    )
    assert event.changes == {"name": "ada@laptop", "type": "ssh-ed25519"}
    assert (notice.user_id, notice.kind) == (actor.user_id, "sign-in.ssh-key")
    assert key.fingerprint in notice.message


@pytest.mark.parametrize(
    ("name", "comment", "kept"),
    [
        (" blue key ", "ada@laptop", "blue key"),
        ("", "ada@laptop", "ada@laptop"),
        ("", "a" * 200, "a" * 120),
        (" ", "", "ssh-ed25519"),
    ],
)
def test_a_key_is_called_as_its_owner_says_or_as_its_comment(
    name: str, comment: str, kept: str, actor: Actor
) -> None:
    assert add(actor, line("ada", comment), name).name == kept


def test_every_wrong_field_is_named(actor: Actor) -> None:
    for name in ("a" * 121, "a\x1bb"):
        refusal = refused(Invalid, actor, "nothing", name)
        assert isinstance(refusal, Invalid)
        assert [problem.pointer for problem in refusal.problems] == ["/name", "/text"]
        refused(Invalid, actor, line("ada"), name)


def test_a_key_opens_one_account_and_nobody_learns_whose(actor: Actor) -> None:
    add(actor, name="blue key")
    assert "blue key" in refused(AlreadyExists, actor, line("ada", "again")).detail
    words = refused(AlreadyExists, as_actor(make_user("rosa")), line("ada")).detail
    assert words == "This key opens another account already, and a key opens only one."


def test_of_two_who_add_the_same_key_at_once_the_second_is_refused(actor: Actor) -> None:
    add(as_actor(make_user("rosa")), line("ada"))
    with patch.object(QuerySet, "first", return_value=None):
        assert "another account" in refused(AlreadyExists, actor).detail
    assert AuditEvent.objects.filter(actor="ada").count() == 0


def test_a_person_has_twenty_keys_at_most(actor: Actor) -> None:
    for number in range(keeping.MOST_KEYS):
        add(actor, line(f"ada {number}"))
    refused(Conflict, actor, line("one more"))
    refused(AlreadyExists, actor, line("ada 1"))
    keeping.remove_ssh_key(actor=actor, key=SshKey.objects.all()[0], now=timezone.now())
    assert add(actor, line("one more")).name == "ssh-ed25519"


@pytest.mark.parametrize("cut", [{"scopes": frozenset({"tokens:write"})}, {"tenants": frozenset({"vision"})}])
def test_a_limited_credential_adds_none(cut: dict[str, Any], actor: Actor) -> None:
    assert "limited" in refused(NotAllowed, replace(actor, **cut)).detail


def test_only_people_have_keys(ada: User, actor: Actor) -> None:
    refused(NotAllowed, system_actor("sweep"))
    User.objects.filter(pk=ada.pk).update(is_service=True)
    refused(NotAllowed, actor)


def test_a_key_is_removed_by_its_owner_alone(actor: Actor) -> None:
    key, now = add(actor), timezone.now()
    with pytest.raises(NotAllowed):
        keeping.remove_ssh_key(actor=as_actor(make_user("rosa")), key=key, now=now)
    for _ in range(2):
        keeping.remove_ssh_key(actor=actor, key=key, now=now)
    assert not SshKey.objects.exists()
    assert AuditEvent.objects.filter(action="ssh-key.remove").count() == 1


def test_a_key_is_known_by_its_fingerprint_while_its_owner_is_active(ada: User, actor: Actor) -> None:
    key = add(actor)
    known = selectors.ssh_key_of(key.fingerprint)
    assert known is not None
    assert (known.pk, known.user.username) == (key.pk, "ada")
    assert selectors.ssh_key_of("SHA256:unknown") is None
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert selectors.ssh_key_of(key.fingerprint) is None


def test_the_use_of_a_key_is_written_at_most_once_a_minute(actor: Actor) -> None:
    key, now = add(actor), timezone.now()
    for seconds, kept in ((0, 0), (59, 0), (61, 61)):
        keeping.note_use(SshKey.objects.get(pk=key.pk), now + timedelta(seconds=seconds))
        assert SshKey.objects.get().used_at == now + timedelta(seconds=kept)
    # Somebody who read the row earlier writes nothing over it.
    keeping.note_use(key, now + timedelta(seconds=90))
    assert SshKey.objects.get().used_at == now + timedelta(seconds=61)


@urls
def test_a_key_is_added_read_and_removed_over_rest(bearer: Bearer) -> None:
    client, body = bearer(), {"text": line("ada", "ada@laptop")}
    sent = [client.post(KEYS, body, JSON, headers={"Idempotency-Key": "one"}) for _ in range(2)]
    assert [answer.status_code for answer in sent] == [201, 201]
    assert sent[0].json() == sent[1].json() == client.get(sent[0]["Location"]).json()
    assert client.get(KEYS).json()["items"] == [sent[0].json()]
    assert {**sent[0].json(), "id": "", "created_at": ""} == {
        "object": "ssh-key",
        "id": "",
        "name": "ada@laptop",
        "type": "ssh-ed25519",
        "fingerprint": read(line("ada")).fingerprint,
        "text": line("ada"),
        "created_at": "",
        "last_used_at": None,
    }
    again = client.post(KEYS, body, JSON)
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")
    assert client.delete(sent[0]["Location"]).status_code == 204
    assert client.delete(sent[0]["Location"]).status_code == 404
    assert client.get(KEYS).json() == {"items": [], "next": None}


@urls
def test_rest_refuses_a_private_key_and_keeps_nothing_of_it(
    bearer: Bearer, caplog: pytest.LogCaptureFixture
) -> None:
    pasted = ssh_lines.private(PrivateFormat.OpenSSH)
    answer = bearer().post(KEYS, {"text": pasted}, JSON, headers={"Idempotency-Key": "one"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "validation_failed")
    assert problem["errors"] == [{"pointer": "#/text", "code": "invalid_value", "detail": PRIVATE}]
    assert not SshKey.objects.exists()
    assert not IdempotencyKey.objects.exists()
    secret = pasted.splitlines()[2]
    assert secret not in answer.content.decode()
    assert secret not in caplog.text


@urls
def test_a_limited_token_adds_none_and_one_of_some_tenants_sees_none(
    cast: Cast, ada: User, actor: Actor, bearer: Bearer
) -> None:
    join(cast.vision, ada)
    key = add(actor)
    address, body = f"{KEYS}/{key.pk}", {"text": line("another")}
    some, reader = bearer(scopes=["tokens:write"]), bearer(scopes=["tokens:read"])
    cut = bearer(tenants=["vision"])
    for client, code in ((some, "not_allowed"), (cut, "not_allowed"), (reader, "insufficient_scope")):
        answer = client.post(KEYS, body, JSON)
        assert (answer.status_code, answer.json()["code"]) == (403, code)
    assert (cut.get(KEYS).json()["items"], cut.get(address).status_code) == ([], 404)
    assert cut.delete(address).status_code == 404
    assert reader.delete(address).status_code == 403
    assert some.get(address).json()["id"] == str(key.pk)
    assert some.delete(address).status_code == 204
