"""What waits for a person, as the first pages list it."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Min, QuerySet

from apps.quotas.models import QuotaRequest
from apps.quotas.specs import RequestStatus
from apps.tenants.models import MemberInvitation
from apps.tenants.specs import InvitationStatus


class Need(NamedTuple):
    """One thing that waits for a person."""

    what: str
    why: str
    icon: str
    tone: str
    url: str = ""
    since: datetime | None = None


def invitations(seen: QuerySet[MemberInvitation], url: str) -> Iterable[Need]:
    """The open invitations among these, as one line; none where nothing is open."""
    asked = (
        seen.filter(status=InvitationStatus.OPEN)
        .order_by()
        .aggregate(n=Count("pk"), oldest=Min("created_at"))
    )
    if asked["n"]:
        what = f"{asked['n']} invitation{'s' if asked['n'] != 1 else ''}"
        yield Need(what, "not decided yet", "inbox", "warn", url, asked["oldest"])


def requests(seen: QuerySet[QuotaRequest], why: str, url: str) -> Iterable[Need]:
    """The open quota requests among these, as one line; none where nothing is open."""
    found = (
        seen.filter(status=RequestStatus.OPEN).order_by().aggregate(n=Count("pk"), oldest=Min("created_at"))
    )
    if found["n"]:
        what = f"{found['n']} quota request{'s' if found['n'] != 1 else ''}"
        yield Need(what, why, "inbox", "warn", url, found["oldest"])
