"""Reading people, tokens and SSH keys. Never writes."""

import re
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import CharField, QuerySet

from apps.accounts.models import ApiToken, SshKey, User
from apps.accounts.specs import Actor
from apps.accounts.tokens import digest, looks_valid
from apps.errors import NotFound
from apps.prepared import Prepared
from apps.web.requests.lookups import one
from apps.web.shapes.likeness import is_like, skeleton

_STRANGE = re.compile(r"[^\w.@+-]+", re.ASCII)
_LONGEST_NAME = 140
"""Of 150: a number may come behind it."""
_TOKEN = Prepared(lambda digest: ApiToken.objects.select_related("user").filter(digest=digest), CharField())


def username_like(username: str) -> str:
    """The username that this one is, or may be taken for, the break-glass account's among them; empty where
    there is none. Looks at everybody: for the making of people alone.
    """
    kept = settings.CONFIG.break_glass_user
    names = User.objects.values_list("username", flat=True)
    likes = [name for name in names.iterator() if is_like(name, username)]
    if username in likes or (kept and kept != username and is_like(kept, username)):
        likes.insert(0, username if username in likes else kept)
    return next(iter(likes), "")


def is_username(text: str) -> bool:
    """Whether exactly this is somebody's username."""
    return User.objects.filter(username=text).exists()


def free_username(wanted: str) -> str:
    """A valid username of that text, or the first of name-2, name-3 ... that is like nobody's
    (`services.require_unlike`). The break-glass account's is taken before there is one.
    """
    name = _STRANGE.sub("-", wanted).strip("-")[:_LONGEST_NAME] or "person"
    taken = {skeleton(each) for each in User.objects.values_list("username", flat=True)}
    taken.add(skeleton(settings.CONFIG.break_glass_user))
    number, free = 1, name
    while skeleton(free) in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def person_by_mail(email: str, *, but: UUID | None = None) -> User | None:
    """Who has this e-mail or one that looks like it, whatever its capitals; `but`: somebody to leave out."""
    rows = User.objects.exclude(email="")
    rows = rows.exclude(pk=but) if but else rows
    rows = rows.only("username", "email", "is_active").order_by("created_at", "pk")
    return next((user for user in rows.iterator() if is_like(user.email, email)), None)


def account_of_mail(email: str) -> User | None:
    """The open account of a person with exactly this e-mail, whatever its capitals. None where several have
    it: an e-mail that means two people means nobody.
    """
    found = User.objects.filter(email__iexact=email, is_active=True, is_service=False)[:2]
    return found[0] if len(found) == 1 else None


def live_token(text: str, now: datetime) -> ApiToken | None:
    """The token that this text opens now: known, not revoked, not expired, of an active user.

    Found by its SHA-256, so how long the look-up takes says nothing about any stored token.
    """
    if not looks_valid(text):
        return None
    token = _TOKEN.first(digest(text))
    return token if token is not None and is_live(token, now) else None


def is_live(token: ApiToken, now: datetime) -> bool:
    """Whether a token opens anything: not revoked, not expired, of an active user."""
    return token.revoked_at is None and token.expires_at > now and token.user.is_active


def tokens_for(actor: Actor) -> QuerySet[ApiToken]:
    """The actor's own tokens that are not revoked. A token limited to some tenants sees none that reaches
    others.
    """
    found = ApiToken.objects.filter(user=actor.user_id, revoked_at=None)
    cut = actor.tenants
    if cut is None:
        return found
    # In Python: only PostgreSQL asks whether one JSON list is within another.
    rows = found.values_list("pk", "tenants")
    return found.filter(pk__in=[pk for pk, tenants in rows if tenants and cut.issuperset(tenants)])


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The tokens of a service account that are not revoked: for its keepers."""
    return ApiToken.objects.filter(user=user, revoked_at=None)


def token_for(actor: Actor, token_id: UUID) -> ApiToken:
    """One of the actor's own tokens, or NotFound."""
    return one(tokens_for(actor).filter(pk=token_id))


def ssh_key_of(fingerprint: str) -> SshKey | None:
    """The key with this fingerprint, and its user with it; None if nobody has it or the account is closed."""
    rows = SshKey.objects.select_related("user")
    return rows.filter(fingerprint=fingerprint, user__is_active=True).first()


def ssh_keys_for(actor: Actor) -> QuerySet[SshKey]:
    """The actor's own keys. A token limited to some tenants sees none: a key reaches others too."""
    rows = SshKey.objects.filter(user=actor.user_id)
    return rows if actor.tenants is None else rows.none()


def ssh_key_for(actor: Actor, key: UUID) -> SshKey:
    """One of the actor's own keys, or NotFound."""
    return one(ssh_keys_for(actor).filter(pk=key))


def people_for(actor: Actor) -> QuerySet[User]:
    """Everybody with an account, service accounts left out: for platform engineers and auditors alone."""
    found = User.objects.filter(is_service=False)
    return found if actor.sees_everything else found.none()


def person_for(actor: Actor, username: str) -> User:
    """One person by username, if the actor may see people; raises NotFound."""
    return one(people_for(actor).filter(username=username))


def oneself(actor: Actor) -> User:
    """The person who asks; raises NotFound for the system."""
    if actor.user_id is None:
        raise NotFound
    return one(User.objects.filter(pk=actor.user_id))


def asker(actor: Actor) -> User:
    """The person who asks, to be named by what is written: what the actor does not tell is read when it is
    asked for.
    """
    known = {"id": actor.user_id, "username": actor.username}
    # In the order of the columns, as Django wants them.
    names = [field.attname for field in User._meta.concrete_fields if field.attname in known]
    return User.from_db(None, names, [known[name] for name in names])


def shown_names(usernames: Iterable[str]) -> dict[str, str]:
    """What pages call these people, by username; nothing of who is no user, such as a policy."""
    rows = User.objects.filter(username__in=set(filter(None, usernames)))
    return {user.username: user.shown_name for user in rows.only("username", "display_name")}


def names_of(pks: Iterable[UUID]) -> dict[UUID | None, tuple[str, str]]:
    """What pages call these people and what they sign in as, by primary key; "" where it is the same."""
    rows = User.objects.filter(pk__in=set(pks)).only("username", "display_name")
    return {row.pk: (row.shown_name, row.username if row.display_name else "") for row in rows}
