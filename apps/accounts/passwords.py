"""Whether a password opens anything here. An installation may leave it to one account, for when the
organisation's sign-in is broken: `ALLOTMENT_PASSWORD_SIGN_IN=break-glass`.
"""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.specs import PlatformRole
from apps.errors import Conflict
from apps.notices import services as notices
from apps.notices.specs import Kind

EVERYBODY = "everybody"
ALARM = "Somebody signed in as {}, the break-glass account, with a password."


def is_open_to(username: str) -> bool:
    """Whether this person may sign in with a password."""
    return is_for_everybody() or username == settings.CONFIG.break_glass_user


def is_for_everybody() -> bool:
    """Whether passwords are usual here."""
    return bool(settings.CONFIG.password_sign_in == EVERYBODY)


def require_open_to(username: str) -> None:
    """Raises Conflict where a password would open nothing for this person."""
    if not is_open_to(username):
        names = ", ".join(each.name for each in settings.CONFIG.providers)
        raise Conflict(
            "Passwords are switched off here, so that a link to choose one would lead nowhere.",
            hint=f"People come in with {names}; their account is made at the first sign-in.",
        )


@transaction.atomic
def tell_break_glass(user: User, *, now: datetime) -> None:
    """The alarm: every platform engineer hears that the account was used."""
    engineers = User.objects.filter(
        platform_role=PlatformRole.PLATFORM, is_active=True, is_service=False
    ).values_list("pk", flat=True)
    words = ALARM.format(user.username)
    notices.tell(engineers, kind=Kind.BREAK_GLASS, message=words, url="/console/users/", at=now)
