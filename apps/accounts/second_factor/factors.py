"""The second factor of a local account: an authenticator app, passkeys (`passkeys`), and recovery codes for
who has lost them.

Whoever comes in with an organisation's provider has the provider's. An API token is a credential of its own.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from apps import sealing
from apps.accounts import passwords, policies, sessions
from apps.accounts.models import Authenticator, Passkey, RecoveryCode, User
from apps.accounts.second_factor import codes
from apps.accounts.specs import Actor, PlatformRole, system_actor
from apps.audit import services as audit
from apps.errors import Conflict, DomainError, FieldProblem, Invalid
from apps.notices import services as notices
from apps.notices.specs import Kind

ENGINEERS, HERE = "engineers", "/me/sign-in/"
PENDING_LIFE = timedelta(minutes=15)
"""How long a new app's secret waits for its first code."""
_KEPT = "app"
MOST_WRONG, TOLD_WRONG, WRONG_LIFE = 20, 5, timedelta(hours=1)
"""Of an account's app: six digits are soon guessed at the pace of passwords."""
WRONG_CODE = "The code is wrong, is over, or was used already. Type the one that the app shows now."


class TooManyCodes(DomainError):
    """Codes of the app are refused for the rest of the hour, right ones too."""

    code, status = "rate_limited", 429
    hint = "Use a recovery code or a passkey, or wait for an hour."

    def __init__(self) -> None:
        super().__init__(f"{MOST_WRONG} wrong codes came within an hour: no code of the app is taken now.")


@dataclass(frozen=True)
class Standing:
    """What somebody has; `left` are the recovery codes not used yet."""

    app: Authenticator | None
    passkeys: list[Passkey]
    left: int

    @property
    def count(self) -> int:
        """How many factors besides the password."""
        return bool(self.app) + len(self.passkeys)

    @property
    def is_set(self) -> bool:
        """Whether a password alone opens nothing."""
        return self.count > 0


def standing(user: User) -> Standing:
    """How somebody's second factor stands."""
    left = RecoveryCode.objects.filter(user=user, used_at=None).count()
    keys = list(Passkey.objects.filter(user=user).order_by("created_at"))
    return Standing(_in_force(user), keys, left)


def is_set(user: User) -> bool:
    """Whether a password alone does not open this account."""
    return _in_force(user) is not None or Passkey.objects.filter(user=user).exists()


def is_for(user: User) -> bool:
    """Whether a second factor means anything: for people who come in with a password."""
    return not user.is_service and user.has_usable_password() and passwords.is_open_to(user.username)


def is_demanded(user: User) -> bool:
    """Whether this installation wants one of this person: `ALLOTMENT_SECOND_FACTOR=engineers`."""
    is_engineer = user.platform_role == PlatformRole.PLATFORM
    return bool(is_engineer and settings.CONFIG.second_factor == ENGINEERS)


def require_for(user: User) -> None:
    """Raises Conflict where a second factor would be asked of nobody."""
    if not is_for(user):
        raise Conflict(
            "No password opens this account, so a second factor would be asked of nobody.",
            hint="The second factor is set up where you come in from.",
        )


def require_removable(user: User) -> None:
    """Raises Conflict for the last factor of who must have one."""
    if is_demanded(user) and standing(user).count == 1:
        raise Conflict(
            "This installation wants a second factor of platform engineers, and this is your last.",
            hint="Set another one up first. Another phone takes the place of the first.",
        )


def begin_app(session: SessionBase, user: User, *, now: datetime) -> bytes:
    """A new secret for an app, in force once `confirm_app` saw its first code; a later one replaces it.

    Rule: it waits in the session that began it, sealed; no other session of the account sees or swaps it.
    """
    require_for(user)
    secret = secrets.token_bytes(codes.SECRET_BYTES)
    sealed = sealing.seal(secret.hex(), sealing.AUTHENTICATOR)
    session[_KEPT] = {"sealed": sealed, "user": str(user.pk), "ends": (now + PENDING_LIFE).timestamp()}
    return secret


def pending_of(session: SessionBase, user: User, *, now: datetime) -> bytes | None:
    """The secret that waits in this session for its first code; None once it is over."""
    kept = session.get(_KEPT)
    if kept is None or kept["user"] != str(user.pk) or now.timestamp() >= kept["ends"]:
        return None
    return _unsealed(kept["sealed"])


@transaction.atomic
def confirm_app(
    *, actor: Actor, user: User, code: str, session: SessionBase, now: datetime, is_first: bool = False
) -> list[str]:
    """Puts the app that waits in force; answers the text of new recovery codes, none where there are some.

    The person's other sessions end. Raises Invalid for a wrong code. `is_first`: raises Conflict where there
    is a factor by now, for who has shown none.
    """
    secret = pending_of(session, user, now=now)
    if secret is None:
        raise Conflict("No app waits for its code.", hint="Begin again: scan the new QR code.")
    step = codes.matching_step(secret, code, now=now, after=0)
    if step is None:
        raise Invalid([FieldProblem("/code", "invalid_value", WRONG_CODE)])
    hold(user)
    if is_first and is_set(user):
        raise Conflict("A second factor was set up meanwhile.", hint="Sign in again.")
    before = "app" if _in_force(user) else None
    sealed = session.pop(_KEPT)["sealed"]
    new = {"sealed": sealed, "last_step": step, "set_at": now, "used_at": now}
    Authenticator.objects.update_or_create(user=user, defaults=new)
    here = session.session_key or ""
    changed(actor, user, "set-second-factor", (before, "app"), here=here, now=now)
    tell(user, "An authenticator app is asked for at your sign-in from now on.", now)
    return codes_where_none(user)


def accepts(user: User, code: str, *, now: datetime) -> bool:
    """Whether the app's code is right; it is used up then, also where two ask at once.

    Rule: 20 wrong ones in an hour, in all browsers together, stop codes of the app (raises TooManyCodes);
    recovery codes and passkeys, which nobody guesses, go on. The owner hears of the fifth.
    """
    row = _in_force(user)
    if row is None or len(codes.digits_of(code)) != codes.DIGITS:
        return False
    count = _counted(user, now)
    step = codes.matching_step(_unsealed(row.sealed), code, now=now, after=row.last_step)
    if step is not None and _used_up(user, step, now):
        return True
    if count == TOLD_WRONG:
        _warn(user, now)
    return False


@transaction.atomic
def accepts_recovery(user: User, code: str, *, now: datetime) -> bool:
    """Whether this is a recovery code not used yet; it is used up then, and the person is told."""
    digests = sealing.derivable(sealing.RECOVERY, _of_code(user, code))
    known = RecoveryCode.objects.filter(user=user, digest__in=digests, used_at=None)
    if known.update(used_at=now) != 1:
        return False
    left = standing(user).left
    tell(user, f"A recovery code was used at your sign-in. {left} {'is' if left == 1 else 'are'} left.", now)
    return True


def proves(user: User, *, password: str, code: str, now: datetime) -> bool:
    """Whether it is really them, before what a stolen session must not do: the password, or any code."""
    if password:
        return user.check_password(password)
    return accepts_recovery(user, code, now=now) or accepts(user, code, now=now)


@transaction.atomic
def renew_codes(*, actor: Actor, user: User, now: datetime) -> list[str]:
    """Ten new recovery codes; all earlier ones are void. The caller has asked for a proof."""
    if not is_set(user):
        raise Conflict("Recovery codes belong to a second factor.", hint="Set one up first.")
    hold(user)
    made = _new_codes(user)
    audit.record(actor, "user.new-recovery-codes", user, now=now)
    tell(user, "You have new recovery codes. Earlier ones no longer work.", now)
    return made


@transaction.atomic
def remove_app(*, actor: Actor, user: User, here: str, now: datetime) -> None:
    """Takes the app away; other sessions end. The caller has asked for a proof.

    Rule: see `require_removable`. Without any factor recovery codes are void.
    """
    if _in_force(user) is None:
        raise Conflict("There is no authenticator app.", hint="Set one up first.")
    hold(user)
    require_removable(user)
    Authenticator.objects.filter(user=user).delete()
    removed(actor, user, "app", here=here, now=now)


@transaction.atomic
def reset(*, actor: Actor, user: User, now: datetime) -> bool:
    """For who has lost it: factors and recovery codes go, every session ends; answers whether there was one.

    Rule: see `policies.require_keeper_of`, never for themselves: a session that somebody stole must not.
    """
    policies.require_keeper_of(actor, user)
    if actor.user_id == user.pk:
        raise Conflict(
            "You cannot reset your own second factor.",
            hint="Remove it under your name, Sign-in, or ask another platform engineer.",
        )
    if not is_set(user):
        return False
    hold(user)
    Authenticator.objects.filter(user=user).delete()
    Passkey.objects.filter(user=user).delete()
    RecoveryCode.objects.filter(user=user).delete()
    changed(actor, user, "reset-second-factor", ("set", None), here="", now=now)
    tell(user, f"{actor.username} reset your second factor: the password alone opens your account.", now)
    return True


def _used_up(user: User, step: int, now: datetime) -> bool:
    fresh = Authenticator.objects.filter(user=user, last_step__lt=step)
    return fresh.update(last_step=step, used_at=now, wrong=Greatest(F("wrong") - 1, 0)) == 1


@transaction.atomic
def _counted(user: User, now: datetime) -> int:
    """The code's number among the wrong ones of its hour, counted before it is looked at: in the database,
    so that no browser has its own count and none is free while Redis is away. Raises TooManyCodes.
    """
    rows = Authenticator.objects.filter(user=user)
    rows.filter(Q(wrong_since=None) | Q(wrong_since__lte=now - WRONG_LIFE)).update(wrong=0, wrong_since=now)
    if rows.filter(wrong__lt=MOST_WRONG).update(wrong=F("wrong") + 1) != 1:
        raise TooManyCodes
    return rows.get().wrong


@transaction.atomic
def _warn(user: User, now: datetime) -> None:
    """Whoever tries codes has the password, or a browser in which its owner is signed in."""
    words = (
        f"{TOLD_WRONG} wrong codes of your app were tried within an hour, by somebody who has your password "
        "or a browser of yours. If that was not you, ask a platform engineer for a new link, and choose "
        "another password."
    )
    changes = {"wrong_codes": [None, TOLD_WRONG]}
    audit.record(system_actor("sign-in"), "user.wrong-codes", user, now=now, changes=changes)
    tell(user, words, now)


def hold(user: User) -> None:
    """One change of a person's factors at a time: of two removals at once the second sees the first."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _in_force(user: User) -> Authenticator | None:
    return Authenticator.objects.filter(user=user).first()


def _unsealed(sealed: str) -> bytes:
    try:
        return bytes.fromhex(sealing.unseal(sealed, sealing.AUTHENTICATOR))
    except ValueError:
        raise Conflict(
            "Codes of this app cannot be checked any more: the installation has another secret key.",
            hint="Ask a platform engineer to reset your second factor.",
        ) from None


def _new_codes(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    made = [codes.recovery_code(secrets.token_bytes(codes.CODE_BYTES)) for _ in range(codes.MOST_CODES)]
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=_digest(user, each)) for each in made)
    return made


def _digest(user: User, code: str) -> str:
    return sealing.derived(sealing.RECOVERY, _of_code(user, code))


def _of_code(user: User, code: str) -> str:
    return f"{user.pk}:{codes.plain(code)}"


def codes_where_none(user: User) -> list[str]:
    """The text of new recovery codes for who has none left; none for everybody else."""
    has_some = RecoveryCode.objects.filter(user=user, used_at=None).exists()
    return [] if has_some else _new_codes(user)


def removed(actor: Actor, user: User, what: str, *, here: str, now: datetime) -> None:
    """A factor is gone; with the last of them recovery codes go too, and other sessions end."""
    is_last = not is_set(user)
    if is_last:
        RecoveryCode.objects.filter(user=user).delete()
    changed(actor, user, "remove-second-factor", (what, None), here=here, now=now)
    rest = "the password alone opens your account" if is_last else "the others are asked for as before"
    tell(user, f"A second factor was removed from your sign-in, {what}: {rest}.", now)


def changed(
    actor: Actor, user: User, act: str, change: tuple[str | None, str | None], *, here: str, now: datetime
) -> None:
    """The person's sessions end, all but `here`, and the record says what was changed."""
    sessions.end_all(actor=actor, user=user, now=now, but=here)
    audit.record(actor, f"user.{act}", user, now=now, changes={"second_factor": list(change)})


def tell(user: User, words: str, now: datetime) -> None:
    """A message to the person: whoever has taken an account over does such things."""
    notices.tell([user.pk], kind=Kind.SECOND_FACTOR, message=words, url=HERE, at=now)
