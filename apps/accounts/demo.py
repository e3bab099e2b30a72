"""The demo's people, who sign in by a button. Outside the demo this module finds nobody."""

from django.conf import settings

from apps.accounts.models import User
from apps.accounts.specs import DEMO_PEOPLE
from apps.errors import NotFound


def demo_people() -> list[tuple[User, str]]:
    """Each person that exists, with what the person is, in the order of the buttons."""
    if not settings.CONFIG.demo:
        return []
    found = {user.username: user for user in User.objects.filter(username__in=DEMO_PEOPLE, is_active=True)}
    return [(found[name], what) for name, what in DEMO_PEOPLE.items() if name in found]


def demo_person(username: str) -> User:
    """The person of a button, or NotFound."""
    for user, _ in demo_people():
        if user.username == username:
            return user
    raise NotFound
