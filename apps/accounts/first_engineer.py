"""The first platform engineer of an installation: made once, by whoever may run its programs, with a one-time
link and no password. All later people are invited (`people`).
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from apps.accounts import people
from apps.accounts.models import Invitation, User
from apps.accounts.people import PersonWish
from apps.accounts.specs import PlatformRole, system_actor
from apps.errors import Conflict, FieldProblem, Invalid

BOOTSTRAP = system_actor("bootstrap")
"""Who acts; `system:bootstrap` in the audit record."""


@dataclass(frozen=True)
class Start:
    """What a first start found or made: the engineers there are, and the text of a new link, if one was made.

    `linked` is whose link it is; `link_until` is the end of an earlier link that still works.
    """

    engineers: tuple[User, ...]
    is_new: bool = False
    linked: User | None = None
    text: str = ""
    link_until: datetime | None = None

    @property
    def is_taken_up(self) -> bool:
        """Whether any of them has signed in, or could."""
        return any(map(_has_come, self.engineers))


@transaction.atomic
def begin(*, wish: PersonWish, new_link: bool, now: datetime) -> Start:
    """Makes the first platform engineer; where one is active already, makes nothing and says who is there.

    Rule: `new_link` renews the link as long as no engineer has used one; afterwards engineers do that for
    each other. Raises Invalid and Conflict. Of several that run at once, one makes it and the others find it.
    """
    _one_at_a_time()
    engineers = tuple(_engineers())
    if not engineers:
        if not wish.username:
            words = "Nobody is a platform engineer yet: name one."
            raise Invalid([FieldProblem("/username", "required", words)])
        wish = PersonWish(wish.username, wish.display_name, wish.email, PlatformRole.PLATFORM)
        made, text = people.invite(actor=BOOTSTRAP, wish=wish, now=now)
        return Start((made,), is_new=True, linked=made, text=text)
    found = Start(engineers, link_until=_link_until(engineers, now))
    return _renewed(found, wish.username, now) if new_link else found


def _renewed(found: Start, username: str, now: datetime) -> Start:
    if found.is_taken_up:
        names = ", ".join(each.username for each in found.engineers if _has_come(each))
        raise Conflict(
            f"{names} can sign in already: no link is made from here any more.",
            hint="Sign in; under Console, Users another engineer gives a new link.",
        )
    whose = [each for each in found.engineers if username in ("", each.username)]
    if not whose:
        words = f"The engineers are {', '.join(each.username for each in found.engineers)}."
        raise Invalid([FieldProblem("/username", "reference_not_found", words)])
    text = people.reset_password(actor=BOOTSTRAP, user=whose[0], now=now)
    return Start(found.engineers, linked=whose[0], text=text)


def _engineers() -> list[User]:
    rows = User.objects.filter(platform_role=PlatformRole.PLATFORM, is_service=False, is_active=True)
    return list(rows.order_by("created_at", "pk"))


def _has_come(user: User) -> bool:
    return user.has_usable_password() or user.last_login is not None


def _link_until(engineers: tuple[User, ...], now: datetime) -> datetime | None:
    live = Invitation.objects.filter(user__in=engineers, used_at=None, expires_at__gt=now)
    return live.order_by("-expires_at").values_list("expires_at", flat=True).first()


def _one_at_a_time() -> None:
    """Locks a row that is in every migrated database, and that nobody else locks."""
    applied = MigrationRecorder(connection).migration_qs.filter(app="accounts", name="0001_initial")
    list(applied.select_for_update())
