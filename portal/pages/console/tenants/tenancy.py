"""What the console's pages of tenants, departments and people show. Reads only."""

from typing import Any

from django.db.models import Count, Q
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.policies import require_keeper_of
from apps.accounts.second_factor import factors
from apps.accounts.selectors import people_for, tokens_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants import policies, selectors
from apps.tenants.models import Department
from portal.pages.parts.confirm import Question, work_of

MOST_ROWS = 200


def tenants(actor: Actor) -> dict[str, Any]:
    """Every tenant that the actor looks after."""
    require_console(actor)
    rows = selectors.tenants_for(actor).order_by("department__name", "name")
    if not actor.sees_everything:
        rows = rows.filter(department__in=selectors.managed_by(actor))
    rows = rows.annotate(people=Count("memberships", filter=Q(memberships__user__is_service=False)))
    found = list(rows)
    return {
        "rows": found,
        "leaving": sum(row.deletion_asked_at is not None for row in found),
        "can_make": policies.may_make_tenants(actor),
        "live_topics": ["console"] if actor.sees_everything else [],
    }


def departments(actor: Actor) -> dict[str, Any]:
    """The departments with their tenants and managers."""
    require_console(actor)
    rows = selectors.departments_for(actor).order_by("name")
    if not actor.sees_everything:
        rows = rows.filter(pk__in=selectors.managed_by(actor))
    live = Q(tenants__deleted_at=None)
    rows = rows.annotate(count=Count("tenants", filter=live, distinct=True))
    return {"rows": [_department(row) for row in rows], "can_make": policies.can_manage_tenants(actor)}


def department_of(actor: Actor, slug: str) -> Department:
    """A department, for those who see the console's pages; raises NotFound."""
    require_console(actor)
    return selectors.department_for(actor, slug)


def kept(row: Department) -> dict[str, str]:
    """What the form of a department starts with."""
    return {"name": row.name, "managers": ", ".join(selectors.managers_of(row))}


def department(actor: Actor, row: Department) -> dict[str, Any]:
    """One department with its tenants."""
    tenants = selectors.tenants_for(actor).filter(department=row).order_by("name")
    keeps = actor.sees_everything or row.pk in selectors.managed_by(actor)
    return {"department": row, "tenants": tenants, "can_make": actor.is_platform, "keeps": keeps}


def people(actor: Actor, search: str) -> dict[str, Any]:
    """Everybody with an account, by username."""
    if not actor.sees_everything:
        raise NotFound
    everybody = people_for(actor)
    found = everybody.filter(Q(username__icontains=search) | Q(display_name__icontains=search))
    rows = list(found.prefetch_related("memberships__tenant").order_by("username")[: MOST_ROWS + 1])
    return {
        "rows": [_person(row) for row in rows[:MOST_ROWS]],
        "total": everybody.count(),
        "closed": everybody.filter(is_active=False).count(),
        "more": len(rows) > MOST_ROWS,
        "search": search,
        "can_make": actor.is_platform,
    }


def ending(actor: Actor, user: User, verb: str) -> Question:
    """What a new link or a closed account means for somebody; raises NotAllowed as the change itself."""
    require_keeper_of(actor, user)
    tokens = tokens_of(user).count()
    name, held = user.shown_name, f"{tokens} API token{'' if tokens == 1 else 's'}"
    title, sentences = {
        "reset": (
            f"End the password of {name}?",
            (
                "The password ends now, with every session and earlier link.",
                f"{held} of theirs still open REST.",
                *_staying(user),
            ),
        ),
        "disable": (
            f"Disable {name}?",
            (
                f"{name} is signed out everywhere and can no longer sign in.",
                f"{held} and the access to every cluster end too. Enabling it brings them back.",
            ),
        ),
    }[verb]
    return Question(
        title=title,
        sentences=sentences,
        button="Make a new link" if verb == "reset" else f"Disable {name}",
        back=reverse("console-users"),
        work=work_of(actor, user),
        other=_reset_of(actor, user) if verb == "reset" else None,
    )


def _staying(user: User) -> list[str]:
    """What a new link leaves of a second factor: whoever took an account over keeps nothing unseen."""
    had = factors.standing(user)
    count = len(had.passkeys)
    kept = [f"{count} passkey{'' if count == 1 else 's'}"] if count else []
    kept += ["an authenticator app"] if had.app else []
    if not kept:
        return []
    return [
        f"What stays, and counts again once there is a new password: {', '.join(kept)}.",
        "If somebody else may have set that up, reset the second factor too.",
    ]


def _reset_of(actor: Actor, user: User) -> tuple[str, str] | None:
    if actor.user_id == user.pk or not factors.is_set(user):
        return None
    address = reverse("reset-second-factor", args=[user.username])
    return f"Reset the second factor of {user.shown_name}", address


def require_console(actor: Actor) -> None:
    """The console's pages of tenancy are for platform engineers, auditors and managers; raises NotFound."""
    if not actor.sees_everything and not selectors.managed_by(actor):
        raise NotFound


def _department(row: Department) -> dict[str, Any]:
    return {"row": row, "managers": selectors.managers_of(row), "tenants": row.count}  # type: ignore[attr-defined]


def _person(row: User) -> dict[str, Any]:
    roles = [(each.tenant, each.get_role_display()) for each in row.memberships.all()]
    return {"row": row, "roles": [(t.slug, t.name, word) for t, word in roles if t.deleted_at is None]}
