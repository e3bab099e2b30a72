"""Passkeys (WebAuthn): made, asked for, used, removed. A device signs a challenge; we keep its public key.

After the password any passkey will do. Without a password the device must have verified its owner by finger,
face or PIN: then it is both factors at once.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from apps.accounts import passwords
from apps.accounts.models import Passkey, User
from apps.accounts.second_factor import factors
from apps.accounts.specs import Actor
from apps.errors import Conflict, FieldProblem, Invalid
from apps.web.requests.lookups import by_id

MOST_PASSKEYS, LONGEST_NAME, LONGEST_ANSWER = 10, 60, 20_000
LIFE = timedelta(minutes=5)
REFUSED = "The passkey was not accepted. Try again, or come in another way."
MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, ArithmeticError, RuntimeError,
    struct.error,
)  # fmt: skip
"""What reading an answer that somebody made up may raise."""
_KEPT = "passkey"


def are_possible() -> bool:
    """Browsers keep passkeys for a host's name over https, or for localhost; never for an address."""
    url = urlsplit(settings.CONFIG.url)
    try:
        ip_address(url.hostname or "")
    except ValueError:
        return url.scheme == "https" or url.hostname == "localhost"
    return False


def begin_making(session: SessionBase, user: User, *, now: datetime) -> Mapping[str, Any]:
    """What the browser is asked to make a passkey with; the answer counts in this session, once."""
    factors.require_for(user)
    _require_possible()
    told = PublicKeyCredentialUserEntity(id=user.pk.bytes, name=user.username, display_name=user.shown_name)
    options, state = _server().register_begin(
        told,
        [_data(each) for each in Passkey.objects.filter(user=user)],
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    _keep(session, f"make {user.pk}", state, now)
    return dict(options)["publicKey"]  # type: ignore[no-any-return]


@transaction.atomic
def make(
    *, actor: Actor, user: User, name: str, answer: str, session: SessionBase, now: datetime
) -> list[str]:
    """Keeps the passkey that the browser made; answers the text of new recovery codes, none where there are
    some. Other sessions end. Raises Invalid and Conflict.
    """
    factors.require_for(user)
    name = name.strip()[:LONGEST_NAME] or "Passkey"
    state = _taken(session, f"make {user.pk}", now)
    try:
        found = _server().register_complete(state, _read(answer)).credential_data
    except MALFORMED:
        raise _refusal() from None
    if found is None:
        raise _refusal()
    factors.hold(user)
    if Passkey.objects.filter(user=user).count() >= MOST_PASSKEYS:
        raise Conflict(f"You have {MOST_PASSKEYS} passkeys already.", hint="Remove one first.")
    _, is_new = Passkey.objects.get_or_create(
        digest=_digest(found.credential_id),
        defaults={"user": user, "name": name, "credential": websafe_encode(found), "created_at": now},
    )
    if not is_new:
        raise Conflict("This passkey is known already.", hint="Choose another device.")
    here = session.session_key or ""
    factors.changed(actor, user, "set-second-factor", (None, f"passkey {name}"), here=here, now=now)
    factors.tell(user, f"The passkey {name} opens your account from now on.", now)
    return factors.codes_where_none(user)


def begin_asking(session: SessionBase, user: User | None, *, now: datetime) -> Mapping[str, Any]:
    """What the browser is asked to sign: with a passkey of this person after the password; of nobody in
    particular with any that verifies its owner.
    """
    _require_possible()
    known = [_data(each) for each in Passkey.objects.filter(user=user)] if user else None
    needs = UserVerificationRequirement.PREFERRED if user else UserVerificationRequirement.REQUIRED
    options, state = _server().authenticate_begin(known, user_verification=needs)
    _keep(session, str(user and user.pk), state, now)
    return dict(options)["publicKey"]  # type: ignore[no-any-return]


def owner(*, user: User | None, answer: str, session: SessionBase, now: datetime) -> User:
    """Whose passkey signed what was asked; `user`: whose it must be, None for anybody's. Raises Invalid, and
    Conflict where the account's password was ended: a new link shuts out whoever added a passkey, too.

    Rule: a device that counts must have counted on, else there is a copy of it. What was asked of somebody's
    passkey after the password is no answer to what is asked of anybody's.
    """
    state = _taken(session, str(user and user.pk), now)
    try:
        told = AuthenticationResponse.from_dict(_read(answer))
        row = Passkey.objects.select_related("user").filter(digest=_digest(told.raw_id)).first()
        if row is None or (user is not None and row.user_id != user.pk):
            raise _refusal()
        _server().authenticate_complete(state, [_data(row)], told)
        uses = told.response.authenticator_data.counter
    except MALFORMED:
        raise _refusal() from None
    known = Passkey.objects.filter(pk=row.pk)
    if uses or row.uses:
        known = known.filter(uses__lt=uses)
    if not row.user.is_active or not passwords.is_open_to(row.user.username):
        raise _refusal()
    if user is None and not row.user.has_usable_password():
        raise Conflict(
            "Your password was ended, and no passkey alone opens the account before there is a new one.",
            hint="Choose a password with the link that you were sent, then come back.",
        )
    if known.update(uses=uses, used_at=now) != 1:
        raise _refusal()
    return row.user


def passkey_of(user: User, which: UUID) -> Passkey:
    """One of the person's own; raises NotFound."""
    return by_id(Passkey.objects.filter(user=user), which)


@transaction.atomic
def remove(*, actor: Actor, user: User, which: UUID, here: str, now: datetime) -> None:
    """Takes one away; other sessions end. The caller has asked for a proof. Rule: see `require_removable`."""
    factors.hold(user)
    row = passkey_of(user, which)
    factors.require_removable(user)
    row.delete()
    factors.removed(actor, user, f"passkey {row.name}", here=here, now=now)


def _server() -> Fido2Server:
    """Ours alone: what was signed for another host, port or scheme is worth nothing here."""
    url = urlsplit(settings.CONFIG.url)
    here = f"{url.scheme}://{url.netloc}"
    place = PublicKeyCredentialRpEntity(id=url.hostname or "", name="Allotment")
    none = AttestationConveyancePreference.NONE
    return Fido2Server(place, attestation=none, verify_origin=lambda origin: origin == here)


def _require_possible() -> None:
    if not are_possible():
        raise Conflict(
            "Browsers know no passkeys for this address.",
            hint="They need a host name over https: see ALLOTMENT_PUBLIC_URL.",
        )


def _keep(session: SessionBase, purpose: str, state: Mapping[str, Any], now: datetime) -> None:
    session[_KEPT] = {**state, "purpose": purpose, "ends": (now + LIFE).timestamp()}


def _taken(session: SessionBase, purpose: str, now: datetime) -> Mapping[str, Any]:
    """What this session was asked; once, whatever the answer says."""
    state: Mapping[str, Any] | None = session.pop(_KEPT, None)
    if state is None or now.timestamp() >= state["ends"] or state["purpose"] != purpose:
        raise Invalid([FieldProblem("/answer", "invalid_value", "That took too long. Try again.")])
    return state


def _read(answer: str) -> Mapping[str, Any]:
    if len(answer) > LONGEST_ANSWER:
        raise _refusal()
    read = json.loads(answer)
    if not isinstance(read, dict):
        raise _refusal()
    return read


def _data(row: Passkey) -> AttestedCredentialData:
    return AttestedCredentialData(websafe_decode(row.credential))


def _digest(credential: bytes) -> str:
    return hashlib.sha256(credential).hexdigest()


def _refusal() -> Invalid:
    return Invalid([FieldProblem("/answer", "invalid_value", REFUSED)])
