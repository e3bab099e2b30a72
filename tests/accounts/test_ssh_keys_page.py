"""SSH keys on /me/sign-in/, without JavaScript."""

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from django.test import Client
from django.utils import timezone

from apps.accounts.models import SshKey, User
from apps.accounts.ssh_keys import keeping
from apps.accounts.ssh_keys.public_keys import PRIVATE
from tests.accounts import ssh_lines
from tests.accounts.ssh_lines import line
from tests.conftest import client_of
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
MINE, NEW = "/me/sign-in/", "/me/sign-in/ssh-keys/"


@pytest.fixture
def client(ada: User) -> Client:
    return client_of(ada)


def page_of(client: Client, address: str = MINE) -> str:
    return client.get(address).content.decode()


def test_a_key_is_added_listed_and_removed_after_a_question(client: Client) -> None:
    assert "None yet. Over SSH" in page_of(client)
    assert "<details open>" in page_of(client, NEW)
    answer = client.post(NEW, {"text": line("ada", "ada@laptop"), "name": ""})
    assert (answer.status_code, answer["Location"]) == (303, MINE)
    key, page = SshKey.objects.get(), page_of(client)
    for words in ("The SSH key ada@laptop is added.", "ssh-ed25519", key.fingerprint, "never"):
        assert words in page
    question = f"{NEW}{key.pk}/remove/"
    assert question in page
    assert "Remove the SSH key ada@laptop?" in page_of(client, question)
    assert SshKey.objects.exists()
    assert client.post(question).status_code == 303
    assert not SshKey.objects.exists()
    assert client.get(question).status_code == 404


def test_a_private_key_is_not_given_back(client: Client) -> None:
    pasted = ssh_lines.private(PrivateFormat.OpenSSH)
    answer = client.post(NEW, {"text": pasted, "name": "blue key"})
    page = answer.content.decode()
    assert (answer.status_code, PRIVATE.replace("'", "&#x27;") in page) == (422, True)
    assert 'value="blue key"' in page
    assert "<title>Error: " in page
    assert all(row not in page for row in pasted.splitlines())
    assert not SshKey.objects.exists()


@pytest.mark.parametrize(
    ("typed", "status", "words"),
    [
        ({"text": ""}, 422, "This field is required."),
        ({"text": "nothing"}, 422, "A public key begins with its type."),
        ({"text": line("ada"), "name": "a" * 121}, 422, "at most 120 characters"),
        ({"text": line("ada"), "name": "a\x1bb"}, 422, "printable characters"),
        ({"text": line("rosa")}, 409, "This key opens another account already"),
    ],
)
def test_a_refusal_stands_at_the_form(typed: dict[str, str], status: int, words: str, client: Client) -> None:
    ssh_lines.kept(make_user("rosa"), timezone.now())
    answer = client.post(NEW, typed)
    page = answer.content.decode()
    assert (answer.status_code, words in page, "<details open>" in page) == (status, True, True)
    assert SshKey.objects.count() == 1


def test_nobody_sees_or_removes_a_key_of_another(client: Client) -> None:
    key = ssh_lines.kept(make_user("rosa"), timezone.now())
    assert key.fingerprint not in page_of(client)
    for answer in (client.get(f"{NEW}{key.pk}/remove/"), client.post(f"{NEW}{key.pk}/remove/")):
        assert answer.status_code == 404
    assert SshKey.objects.exists()


def test_the_form_takes_as_many_characters_as_the_rule(client: Client) -> None:
    page = page_of(client)
    assert f'maxlength="{keeping.LONGEST_NAME}"' in page
    assert 'maxlength="16384"' in page
