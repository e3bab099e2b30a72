"""Who may manage people and tokens."""

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.errors import NotAllowed


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
