"""What the console's page of sign-in shows. Reads only."""

from typing import Any

from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.oidc import flows
from apps.accounts.policies import require_keeper_of
from apps.accounts.selectors import person_for
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants.people.selectors import group_rules
from portal.pages.console.people.rule_forms import EffectForm
from portal.pages.parts.confirm import Question


def require_console(actor: Actor) -> None:
    """Platform engineers and auditors see the page; for everybody else it does not exist."""
    if not actor.sees_everything:
        raise NotFound


def sign_in(actor: Actor, effect: EffectForm) -> dict[str, Any]:
    """The providers, the rules, and what somebody would get if that was asked."""
    require_console(actor)
    shown: dict[str, Any] = {
        "providers": flows.providers(),
        "rules": group_rules.rules_for(actor).order_by("provider", "group", "kind", "target"),
        "effect": effect,
        "can_make": actor.is_platform,
    }
    return shown | _tried(actor, effect) if effect.is_bound and effect.is_valid() else shown


def resetting(actor: Actor, user: User) -> Question:
    """What the end of a second factor means for somebody; raises NotAllowed as the change itself."""
    require_keeper_of(actor, user)
    name = user.shown_name
    return Question(
        title=f"Reset the second factor of {name}?",
        sentences=(
            f"For who has lost it: {name} signs in with the password alone after this.",
            "The authenticator app, the recovery codes and every session end now.",
            "Make sure that it is really them who ask: call them back. They get a message that you did it.",
        ),
        button="Reset it",
        back=reverse("console-sessions", args=[user.username]),
    )


def _tried(actor: Actor, effect: EffectForm) -> dict[str, Any]:
    provider, username = effect.cleaned_data["of"], effect.cleaned_data["username"]
    groups, user = effect.lines(), None
    if username:
        user = _person(actor, username, effect)
        if user is None:
            return {}
        groups = groups or group_rules.groups_of(user, provider)
    return {
        "is_tried": True,
        "who": user.shown_name if user else "A new person",
        "groups": groups,
        "outcomes": group_rules.effect(provider, groups, user),
    }


def _person(actor: Actor, username: str, effect: EffectForm) -> User | None:
    try:
        return person_for(actor, username)
    except NotFound:
        effect.add_error("username", f"There is no user {username}.")
        return None
