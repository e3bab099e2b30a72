"""A platform engineer's browser that sees the portal as somebody else."""

import re

from django.test import Client

from apps.accounts.models import User, Viewing
from tests.conftest import client_of

REASON = "my page says X"


def looking(viewer: User, person: User) -> Client:
    """Signed in as the one, viewing as the other."""
    client = client_of(viewer)
    answer = client.post(f"/console/users/{person.username}/view-as/", {"reason": REASON})
    assert answer.status_code == 303, answer.content
    return client


def header_of(client: Client) -> dict[str, str]:
    """What htmx sends from a page of the view."""
    return {"X-Allotment-View": str(client.session["viewing"]), "HX-Request": "true"}


def view_of(client: Client) -> Viewing:
    return Viewing.objects.get(pk=client.session["viewing"])


SAMPLES = {"uuid": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "int": "1", "path": "x", "slug": "x", "str": "x"}


def somewhere(route: str) -> str:
    """An address of the route; nothing need be there."""
    return re.sub(r"<(?:(\w+):)?\w+>", lambda step: SAMPLES[step[1] or "str"], route)
