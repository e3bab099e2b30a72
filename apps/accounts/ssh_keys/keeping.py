"""Adding and removing one's own SSH keys, and noting that one was used."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.accounts import policies
from apps.accounts.models import SshKey, User
from apps.accounts.specs import Actor
from apps.accounts.ssh_keys import public_keys
from apps.accounts.ssh_keys.public_keys import PublicKey
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.notices import services as notices
from apps.notices.specs import Kind

MOST_KEYS, LONGEST_NAME = 20, 120
USED_EVERY = timedelta(minutes=1)
HERE = "/me/sign-in/"


def add_ssh_key(*, actor: Actor, name: str, text: str, now: datetime) -> SshKey:
    """Keeps a public key of the actor's own; without a name it is called by its comment, or else its type.

    Rule: only a credential without limits, since a key reaches all that its owner does and has no end; for
    people alone, 20 each; a key opens one account of the installation. The owner gets a message. Raises
    NotAllowed, Invalid, Conflict and AlreadyExists.
    """
    policies.require_unlimited(actor)
    person = _person(actor)
    key = _checked(name, text)
    with transaction.atomic():
        # Of two that are added at once the second counts the first.
        user = User.objects.select_for_update(no_key=True).get(pk=person)
        _require_new(user, key)
        row = _kept(user, name.strip() or key.comment[:LONGEST_NAME] or key.type, key, now)
        _note(actor, "ssh-key.create", row, now)
        words = f"The SSH key {row.name} opens your account from now on: {row.fingerprint}."
        notices.tell([user.pk], kind=Kind.SSH_KEY, message=words, url=HERE, at=now)
    return row


def remove_ssh_key(*, actor: Actor, key: SshKey, now: datetime) -> None:
    """Forgets a key of the actor's own. Removing it twice changes nothing."""
    if key.user_id != actor.user_id:
        raise NotAllowed("Only the owner of an SSH key may remove it.")
    with transaction.atomic():
        if SshKey.objects.filter(pk=key.pk).delete()[0]:
            _note(actor, "ssh-key.remove", key, now)


def note_use(key: SshKey, now: datetime) -> None:
    """At most once a minute, as with API tokens: a program may connect many times a second."""
    if key.used_at is None or key.used_at < now - USED_EVERY:
        stale = Q(used_at=None) | Q(used_at__lt=now - USED_EVERY)
        SshKey.objects.filter(stale, pk=key.pk).update(used_at=now)


def _person(actor: Actor) -> UUID:
    if actor.user_id is None:
        raise NotAllowed("The system has no SSH keys.")
    if User.objects.filter(pk=actor.user_id, is_service=True).exists():
        raise NotAllowed("A service account has no SSH keys: it uses API tokens.")
    return actor.user_id


def _checked(name: str, text: str) -> PublicKey:
    """Every wrong field is named at once."""
    wrong = _wrong_name(name.strip())
    try:
        key = public_keys.read(text)
    except Invalid as refused:
        raise Invalid([*wrong, *refused.problems]) from None
    if wrong:
        raise Invalid(wrong)
    return key


def _wrong_name(name: str) -> list[FieldProblem]:
    if len(name) > LONGEST_NAME:
        return [FieldProblem("/name", "out_of_range", f"Give a name of at most {LONGEST_NAME} characters.")]
    if not name.isprintable():
        return [FieldProblem("/name", "invalid_value", "Give a name of printable characters.")]
    return []


def _require_new(user: User, key: PublicKey) -> None:
    known = SshKey.objects.filter(fingerprint=key.fingerprint).first()
    if known is not None and known.user_id == user.pk:
        raise AlreadyExists(f"You have this key already: {known.name}.", hint="There is nothing to do.")
    if known is not None:
        raise _taken()
    if SshKey.objects.filter(user=user).count() >= MOST_KEYS:
        raise Conflict(f"You have {MOST_KEYS} SSH keys already.", hint="Remove one first.")


def _kept(user: User, name: str, key: PublicKey, now: datetime) -> SshKey:
    try:
        with transaction.atomic():
            return SshKey.objects.create(
                user=user, name=name, text=key.text, fingerprint=key.fingerprint, created_at=now
            )
    except IntegrityError:
        # Somebody else added the same key at the same moment.
        raise _taken() from None


def _taken() -> AlreadyExists:
    words = "This key opens another account already, and a key opens only one."
    return AlreadyExists(words, hint="Make a key pair of your own: `ssh-keygen -t ed25519`.")


def _note(actor: Actor, action: str, key: SshKey, now: datetime) -> None:
    audit.record(actor, action, key, now=now, changes={"name": key.name, "type": key.type})
