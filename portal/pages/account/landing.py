"""The first page after signing in: what somebody is responsible for comes before what they run."""

from django.urls import reverse

from apps.accounts.specs import Actor
from apps.tenants.selectors import led_by, managed_by


def url(actor: Actor) -> str:
    """RULE: the fleet for who sees everything, a lead's team, a manager's tenants, else home."""
    if actor.sees_everything:
        return reverse("console")
    team = led_by(actor).first()
    if team is not None:
        return reverse("tenant", args=[team.slug])
    return reverse("console-tenants") if managed_by(actor) else reverse("home")
