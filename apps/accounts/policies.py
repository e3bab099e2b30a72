"""Who may manage people and tokens."""

from apps.accounts.models import User
from apps.accounts.specs import Actor, PlatformRole
from apps.errors import Conflict, NotAllowed


def require_platform(actor: Actor) -> None:
    """Only a platform engineer makes users, and not with a token that is cut to some tenants."""
    if not actor.is_platform:
        raise NotAllowed("Only a platform engineer may do this, not with a token limited to some tenants.")


def require_whole(actor: Actor) -> None:
    """Rule: only a credential without limits gives, renews or takes a platform role, so that no token makes
    anything that reaches further than itself. Raises NotAllowed.
    """
    require_platform(actor)
    if actor.scopes is not None:
        words = "A token limited to some scopes cannot decide on people who hold a platform role."
        raise NotAllowed(words, hint="Sign in to do it, or use a token that names no scopes.")


def require_unlimited(actor: Actor) -> None:
    """Rule: only a session, or a token without limits, adds what reaches all that the person does. Raises
    NotAllowed.
    """
    if actor.scopes is not None or actor.tenants is not None:
        raise NotAllowed(
            "A token limited to some scopes or tenants cannot add an SSH key, which would reach further.",
            hint="Sign in to do it, or use a token without limits.",
        )


def require_keeper_of(actor: Actor, user: User) -> None:
    """Rule: platform engineers renew, disable and enable accounts; for people with a platform role see
    `require_whole`. Raises NotAllowed.
    """
    if user.platform_role:
        require_whole(actor)
    else:
        require_platform(actor)


def require_viewer(actor: Actor, person: User) -> None:
    """Rule: a signed-in platform engineer sees the portal as somebody else who may sign in and is no platform
    engineer: a view shows less than its viewer may see, never a colleague's. Raises NotAllowed and Conflict.
    """
    if not actor.is_platform or actor.token_prefix or actor.user_id is None:
        words = "Only a platform engineer who is signed in may see the portal as somebody else."
        raise NotAllowed(words, hint="Ask a platform engineer.")
    if person.pk == actor.user_id:
        raise NotAllowed("You see the portal as yourself already.", hint="Choose somebody else.")
    if person.platform_role == PlatformRole.PLATFORM:
        raise NotAllowed(
            f"{person.shown_name} is a platform engineer: nobody sees the portal as one of those.",
            hint="Ask them to show you.",
        )
    if person.is_service:
        raise NotAllowed("A service account sees no page.", hint="Its tokens and its role are on its page.")
    if not person.is_active:
        raise Conflict(f"The account of {person.shown_name} is closed.", hint="Enable it first.")


def can_view(actor: Actor, person: User) -> bool:
    """Whether `require_viewer` lets this through."""
    try:
        require_viewer(actor, person)
    except (NotAllowed, Conflict):
        return False
    return True
