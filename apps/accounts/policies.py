"""Who may manage people and tokens."""

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.errors import NotAllowed


def require_platform(actor: Actor) -> None:
    """Only a platform engineer makes users, and not with a token that is cut to some tenants."""
    if not actor.is_platform:
        raise NotAllowed("Only a platform engineer may do this, not with a token limited to some tenants.")


def require_whole(actor: Actor) -> None:
    """Rule: a right over the installation is given, renewed or taken by a credential that nothing cuts, so
    that no token makes what reaches further than itself. Raises NotAllowed.
    """
    require_platform(actor)
    if actor.scopes is not None:
        words = "A token limited to some scopes cannot decide on people who hold a platform role."
        raise NotAllowed(words, hint="Sign in to do it, or use a token that names no scopes.")


def require_keeper_of(actor: Actor, user: User) -> None:
    """Rule: platform engineers renew, close and open accounts; of who has a right over the installation see
    `require_whole`. Raises NotAllowed.
    """
    if user.platform_role:
        require_whole(actor)
    else:
        require_platform(actor)
