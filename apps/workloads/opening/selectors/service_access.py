"""Which tokens a service has, and what one of them opens. Reads only."""

from collections.abc import Collection, Hashable, Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import Case, Q, QuerySet, When
from django.utils import timezone

from apps.accounts import actors
from apps.accounts.actors import Credential
from apps.accounts.specs import Actor
from apps.accounts.tokens import digest, looks_valid
from apps.errors import Conflict, NotAllowed
from apps.web.problems.refusals import InvalidToken
from apps.web.requests.lookups import one
from apps.workloads import policies
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import access
from apps.workloads.token_models import ServiceToken

SERVICE = "service"
"""The kind that programs call."""
OVER = "This token does not open it any more."


def takes_tokens(row: Workload) -> bool:
    """Whether programs call it: a notebook is for browsers alone."""
    return row.kind == SERVICE


def tokens_of(row: Workload) -> QuerySet[ServiceToken]:
    """Those that open it, by name."""
    return row.tokens.filter(revoked_at=None).select_related("made_by").order_by("name")


def token_of(row: Workload, pk: str | UUID) -> ServiceToken:
    """One of them; raises NotFound."""
    return one(tokens_of(row).filter(pk=pk))


def require_tokens(actor: Actor, row: Workload) -> None:
    """Raises NotAllowed unless the actor may make tokens of it.

    RULE: who keeps it and opens it. A token is a way in, so that nobody gives one away who has none.
    """
    if not (policies.can_operate(actor, row) and policies.can_open(actor, row)):
        words = f"Only its owner, and leads of {row.tenant.slug} where the team opens it, make its tokens."
        raise NotAllowed(words)


def credential(token: ServiceToken) -> Credential:
    """What it hangs on, for `actors.maker`."""
    return Credential(token.made_by_id, token=token.made_with_id)


def opens_now(token: ServiceToken) -> bool:
    """Whether its maker's access still opens the service."""
    try:
        actor = actors.maker(credential(token))
    except InvalidToken:
        return False
    return policies.can_open(actor, token.workload)


def opened_by(text: str, workload: UUID, now: datetime) -> ServiceToken | None:
    """The token that this text is, of this workload and no other."""
    if not looks_valid(text):
        return None
    found = ServiceToken.objects.filter(_opens(digest(text), now), workload=workload, revoked_at=None)
    return found.select_related("made_by", "workload__tenant", "workload__cluster").first()


def right(actor: Actor, token: UUID, text: str, now: datetime) -> Hashable:
    """What a program's way in hangs on: as for a person who made the token, and that it still opens."""
    row = ServiceToken.objects.filter(_opens(digest(text), now), pk=token, revoked_at=None)
    found = row.select_related("workload__tenant", "workload__cluster", "workload__owner").first()
    refused = Conflict(OVER) if found is None else access.ended(actor, found.workload)
    if refused:
        raise refused
    return token


def standings(tokens: Collection[UUID]) -> Mapping[UUID, Hashable]:
    """Everything of these tokens and their services that `right` can depend on, at one look."""
    rows = ServiceToken.objects.filter(pk__in=tokens, revoked_at=None, workload__deleted_at=None)
    opens_still = Case(When(old_ends_at__gt=timezone.now(), then="old_digest"))
    columns = rows.values_list(
        "pk", "digest", opens_still, "workload__phase", "workload__suspended",
        "workload__deleting_at", "workload__owner", f"workload__spec__{SERVICE}__open_to",
    )  # fmt: skip
    return {pk: tuple(rest) for pk, *rest in columns}


def _opens(hashed: str, now: datetime) -> Q:
    return Q(digest=hashed) | Q(old_digest=hashed, old_ends_at__gt=now)
