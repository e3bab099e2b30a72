"""Who may manage people and tokens."""

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.errors import NotAllowed


def require_platform(actor: Actor) -> None:
    """Only a platform engineer makes users, and not with a token that is cut to some tenants."""
    if not actor.is_platform:
        raise NotAllowed("Only a platform engineer may do this, with nothing that is cut to some tenants.")


def require_whole(actor: Actor) -> None:
    """Rule: a right over the installation is given, renewed or taken by a credential that nothing cuts, so
    that no token makes what reaches further than itself. Raises NotAllowed.
    """
    require_platform(actor)
    if actor.scopes is not None:
        words = "A token that is cut to some scopes decides on nobody who has a right over the installation."
        raise NotAllowed(words, hint="Do it signed in, or with a token that has no scopes named.")


def require_keeper_of(actor: Actor, user: User) -> None:
    """Rule: platform engineers renew, close and open accounts; of who has a right over the installation see
    `require_whole`. Raises NotAllowed.
    """
    if user.platform_role:
        require_whole(actor)
    else:
        require_platform(actor)
