"""Who may manage people and tokens."""

from apps.accounts.specs import Actor
from apps.errors import NotAllowed


def require_platform(actor: Actor) -> None:
    """Only a platform engineer makes users."""
    if not actor.is_platform:
        raise NotAllowed("Only a platform engineer may do this.")
