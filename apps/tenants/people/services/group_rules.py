"""Rules that turn the groups of an organisation's sign-in into rights, made and removed."""

from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from apps.accounts import policies as accounts_policies
from apps.accounts.oidc import flows
from apps.accounts.oidc.client import LONGEST_GROUP
from apps.accounts.specs import Actor, ScopeGroup
from apps.audit import services as audit
from apps.errors import AlreadyExists, FieldProblem, Invalid, NotAllowed
from apps.tenants import selectors
from apps.tenants.models import GroupRule
from apps.tenants.people.rules.group_rights import RANKS
from apps.tenants.specs import RightKind
from apps.web.problems.refusals import InsufficientScope


@dataclass(frozen=True)
class RuleWish:
    """A rule to be made; `target` is a slug, empty for the installation."""

    provider: str
    group: str
    kind: str
    target: str
    role: str


@transaction.atomic
def make_rule(*, actor: Actor, wish: RuleWish, now: datetime) -> GroupRule:
    """Whoever is in the group has the right from the next sign-in on.

    Rule: platform engineers; for a right over the installation see `accounts.policies.require_whole`, and for
    managers a token has to reach tenants too, as to name them by hand.
    """
    require_keeper(actor)
    problems = _wrong(actor, wish)
    if problems:
        raise Invalid(problems)
    _require_kind(actor, wish.kind)
    try:
        with transaction.atomic():
            row = GroupRule.objects.create(**wish.__dict__, created_by=actor.username, created_at=now)
    except IntegrityError:
        words = f"There already is a rule for {wish.group} there."
        raise AlreadyExists(words, hint="Remove it first to give another role.") from None
    audit.record(actor, "group-rule.create", row, now=now, changes=_told(row, is_new=True))
    return row


@transaction.atomic
def remove_rule(*, actor: Actor, rule: GroupRule, now: datetime) -> None:
    """What it gave is taken back from each person at the next sign-in. Rule: as making it."""
    require_keeper(actor)
    _require_kind(actor, rule.kind)
    audit.record(actor, "group-rule.delete", rule, now=now, changes=_told(rule, is_new=False))
    rule.delete()


def require_keeper(actor: Actor) -> None:
    """Rule: platform engineers, with a token that reaches people; raises NotAllowed."""
    accounts_policies.require_platform(actor)
    if not actor.may_use(ScopeGroup.PEOPLE, "write"):
        raise InsufficientScope(f"Rules on groups need a token with the scope {ScopeGroup.PEOPLE}:write.")


def _require_kind(actor: Actor, kind: str) -> None:
    if kind == RightKind.PLATFORM:
        accounts_policies.require_whole(actor)
    elif kind == RightKind.DEPARTMENT and not actor.may_use(ScopeGroup.TENANTS, "write"):
        raise InsufficientScope(f"Naming managers needs a token with the scope {ScopeGroup.TENANTS}:write.")


def require_reader(actor: Actor) -> None:
    """Rule: platform engineers and auditors try what rules do; raises NotAllowed."""
    if not actor.sees_everything:
        raise NotAllowed("Only platform engineers and auditors see what rules on groups do.")


def _told(row: GroupRule, *, is_new: bool) -> dict[str, list[str | None]]:
    right = f"{row.role} of {row.target or 'the installation'}"
    return {row.provider: [None, right] if is_new else [right, None]}


def _wrong(actor: Actor, wish: RuleWish) -> list[FieldProblem]:
    problems = []
    known = [each.slug for each in flows.providers()]
    if wish.provider not in known:
        words = f"There is no provider {wish.provider}. Known: {', '.join(known) or 'none'}."
        problems.append(FieldProblem("/provider", "reference_not_found", words))
    if not wish.group.strip() or len(wish.group) > LONGEST_GROUP:
        words = f"A group as the provider writes it, up to {LONGEST_GROUP} characters."
        problems.append(FieldProblem("/group", "out_of_range", words))
    if wish.kind not in RANKS:
        return [*problems, FieldProblem("/kind", "invalid_value", f"Known: {', '.join(RANKS)}.")]
    kind = RightKind(wish.kind)
    roles = [str(role) for role in RANKS[kind] if role]
    if wish.role not in roles:
        problems.append(FieldProblem("/role", "invalid_value", f"There: {', '.join(roles)}."))
    return problems + _wrong_target(actor, kind, wish.target)


def _wrong_target(actor: Actor, kind: RightKind, target: str) -> list[FieldProblem]:
    if kind is RightKind.PLATFORM:
        words = "A right over the installation is over no tenant or department."
        return [FieldProblem("/target", "invalid_value", words)] if target else []
    if kind is RightKind.TENANT:
        is_there = selectors.tenants_for(actor).filter(slug=target, deleting_at=None).exists()
    else:
        is_there = selectors.departments_for(actor).filter(slug=target, deleting_at=None).exists()
    if is_there:
        return []
    return [FieldProblem("/target", "reference_not_found", f"There is no {kind} {target}.")]
