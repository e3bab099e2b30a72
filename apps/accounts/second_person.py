"""Whether a request and its approval come from two different people.

The audit record says who made which account; nothing else is stored for this. Reads only.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import Q

from apps.accounts.models import ApiToken, User
from apps.accounts.specs import DECIDED_BY, Actor, PlatformRole
from apps.audit import selectors as audit
from apps.errors import NotAllowed

ESTABLISHED = timedelta(days=30)
"""How long an account counts as the same hand as whoever invited it, gave it a new link, reset its second
factor, or wrote the rule on groups that made it an engineer's.
"""
MOST_NAMED = 3
_LINKS = ("user.create", "user.reset-password", "user.reset-second-factor")


def require_second_person(
    actor: Actor, *, asked_by: str, now: datetime, may_have_invited: bool = False
) -> None:
    """Raises NotAllowed unless the approver is a second person, and says who could approve.

    Rule: people approve (`require_person`), and not one with whom who asked shares a hand (see `hands`).
    `may_have_invited`: for what the approver could give without being asked, where having invited the person
    who asks gives no power: there it counts only whom the asker made.
    """
    require_person(actor)
    shared = _shared(asked_by, actor.username, now, may_have_invited=may_have_invited)
    if not shared:
        return
    words = f"{asked_by} asked for it"
    if actor.username != asked_by:
        words += f", and {', '.join(sorted(shared))} may have acted as both of you"
    raise NotAllowed(f"{words}.", code="own_request", hint=_who_can(actor, asked_by, now))


def require_person(actor: Actor) -> None:
    """Raises NotAllowed for a service account: whoever keeps it would approve through it."""
    if actor.user_id and User.objects.filter(pk=actor.user_id, is_service=True).exists():
        words = f"{actor.username} is a service account; only people approve."
        raise NotAllowed(words, hint="Somebody with that role must sign in and approve it.")


def hands(username: str, now: datetime) -> frozenset[str]:
    """Everybody who may have acted as this account: itself; who invited it, gave it a new link, reset its
    second factor, or wrote the rule that gave it a platform role, in the last 30 days; of a service account,
    who made its tokens; and so on of each of them. The system is nobody.
    """
    found: frozenset[str] = frozenset()
    fresh = frozenset({username})
    while fresh:
        found |= fresh
        fresh = _makers(fresh, now) - found
    return found


def _shared(asked_by: str, by: str, now: datetime, *, may_have_invited: bool) -> frozenset[str]:
    if may_have_invited and User.objects.filter(username=asked_by, is_service=False).exists():
        return frozenset({asked_by}) & hands(by, now)
    return hands(asked_by, now) & hands(by, now)


def _makers(usernames: Collection[str], now: datetime) -> frozenset[str]:
    named = Q(username__in=usernames)
    for username in usernames:
        # A deleted service account's name goes on like that: see `tenants.service_accounts`.
        named |= Q(username__startswith=f"{username}~", is_service=True)
    users = dict(User.objects.filter(named).values_list("pk", "is_service"))
    tokens = ApiToken.objects.filter(user__in=[pk for pk, is_service in users.items() if is_service])
    since = now - ESTABLISHED
    makers = audit.actors_of(map(str, users), _LINKS, since=since)
    makers |= audit.named_in(map(str, users), "user.update", DECIDED_BY, since=since)
    makers |= audit.actors_of(map(str, tokens.values_list("pk", flat=True)), ("token.create",))
    return frozenset(name for name in makers if not name.startswith("system:"))


def _who_can(actor: Actor, asked_by: str, now: datetime) -> str:
    """Names the engineers who can, but only to somebody who sees people."""
    if not actor.sees_everything:
        return "Someone else must decide."
    rows = User.objects.filter(platform_role=PlatformRole.PLATFORM, is_active=True, is_service=False)
    theirs = hands(asked_by, now)
    names = rows.exclude(username=asked_by).order_by("username").values_list("username", flat=True)
    able = [name for name in names if not theirs & hands(name, now)]
    if not able:
        return f"Nobody can yet: accounts wait {ESTABLISHED.days} days after an invitation or a new link."
    more = f" and {len(able) - MOST_NAMED} more" if len(able) > MOST_NAMED else ""
    return f"Another platform engineer can: {', '.join(able[:MOST_NAMED])}{more}."
