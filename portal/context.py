"""What every page's shell shows: where the person is, where they can go, and what is wrong with the fleet."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.cluster.models import Cluster
from apps.metering.history.selectors import progress
from apps.notices.selectors import unread
from apps.prepared import Prepared
from apps.tenants.selectors import managed_by, named_for, tenants_for
from apps.web.problems.refusals import InvalidToken

THEMES = ("light", "dark")
MOST_TENANTS = 50
"""How many the switcher lists: a page costs the same whoever looks and however many there are."""
IN_THE_THUMB = 4
"""How many entries a phone's bar at the bottom shows; the others are behind its "More"."""


@dataclass(frozen=True)
class Link:
    """One entry of the main navigation."""

    label: str
    url: str
    icon: str
    current: bool
    key: str = ""
    apart: bool = False


_CLUSTERS = Prepared(lambda: Cluster.objects.order_by("slug").defer("capabilities", "kubeconfig_sealed"))


def shell(request: HttpRequest) -> dict[str, Any]:
    """Theme, and whether the fleet is simulated, for everybody; tenants, links and silent clusters for the
    signed-in. One query each.
    """
    theme = request.COOKIES.get("theme", "")
    shown: dict[str, Any] = {
        "theme": theme if theme in THEMES else "",
        "currency": settings.CONFIG.currency,
        "now": timezone.now(),
    }
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        is_simulated = settings.CONFIG.demo and Cluster.objects.filter(is_simulated=True).exists()
        return shown | {"simulated": is_simulated}
    try:
        return shown | _signed_in(request, actor_of(request))
    except InvalidToken:
        # The session ended while this request ran; the page shown says so itself, in a bare shell.
        return shown


def _signed_in(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    managed = () if actor.sees_everything else managed_by(actor)
    sees_console = actor.sees_everything or bool(managed)
    asked_console = request.path.startswith("/console/")
    in_console = asked_console and sees_console
    # The console has no switcher.
    tenants = [] if in_console else named_for(actor, MOST_TENANTS + 1)
    clusters = _CLUSTERS()
    # A console address that is refused says nothing about whose tenant is in it.
    here = "" if asked_console else _here(request, actor, {slug for slug, _ in tenants})
    home = here or (tenants[0][0] if tenants else "")
    links = (
        _console(request.path, everything=actor.sees_everything)
        if in_console
        else _portal(request.path, home)
    )
    # "More" takes a place too: it stands for two entries or more.
    beyond = links[IN_THE_THUMB:] if len(links) > IN_THE_THUMB + 1 else ()
    return {
        "in_console": in_console,
        "is_console_closed": asked_console and not sees_console,
        "sees_console": sees_console,
        "is_platform": actor.is_platform,
        "tenants": tenants[:MOST_TENANTS],
        "more_tenants": len(tenants) > MOST_TENANTS,
        "tenant_slug": here,
        "console_home": "/console/" if actor.sees_everything else "/console/tenants/",
        "links": links,
        "links_beyond": beyond,
        "is_beyond": any(link.current for link in beyond),
        "silent": [cluster for cluster in clusters if cluster.phase == Cluster.Phase.SILENT],
        "simulated": any(cluster.is_simulated for cluster in clusters),
        "unread": unread(actor.user_id),
        "viewing": getattr(request, "viewing", None),
        "past": progress.coming() if settings.CONFIG.demo else None,
    }


def _here(request: HttpRequest, actor: Actor, listed: set[str]) -> str:
    """The tenant that the address names, if the actor sees it; it is only looked up if not all are listed."""
    match = request.resolver_match
    asked = str(match.kwargs.get("tenant", "")) if match else ""
    if asked in listed:
        return asked
    is_seen = len(listed) > MOST_TENANTS and tenants_for(actor).filter(slug=asked).exists()
    return asked if is_seen else ""


def _portal(path: str, tenant: str) -> tuple[Link, ...]:
    home = Link("Home", "/", "house", path == "/", "g h")
    if not tenant:
        return (home,)
    base = f"/t/{tenant}/"
    return (
        home,
        Link("Workloads", f"{base}workloads/", "layers", path.startswith(f"{base}workloads/"), "g w"),
        Link("New", f"{base}new/", "plus", path.startswith(f"{base}new/"), "n"),
        Link("Tenant", base, "users", path == base, "g t"),
        _place("Usage", f"{base}usage/", "chart", path),
        _place("Findings", f"{base}findings/", "flame", path),
        _place("Quota", f"{base}quota/", "gauge", path),
        _place("Members", f"{base}members/", "user", path),
    )


def _console(path: str, *, everything: bool) -> tuple[Link, ...]:
    """A department's manager only has the pages of tenants and departments."""
    tenancy = (
        _place("Tenants", "/console/tenants/", "users", path),
        _place("Departments", "/console/departments/", "layers", path),
        _place("Requests", "/console/requests/", "inbox", path),
    )
    if not everything:
        return tenancy
    return (
        *_fleet(path),
        _place("Drift", "/console/drift/", "rotate-cw", path),
        _health(path),
        *tenancy,
        _users(path),
        _place("Audit", "/console/audit/", "notebook", path),
    )


def _health(path: str) -> Link:
    """The records are reached from there."""
    places = ("/console/health/", "/console/records/")
    return Link("Health", "/console/health/", "activity", path.startswith(places))


def _users(path: str) -> Link:
    """The rules on groups are reached from there."""
    return Link("Users", "/console/users/", "user", path.startswith(("/console/users/", "/console/sign-in/")))


def _place(label: str, url: str, icon: str, path: str) -> Link:
    return Link(label, url, icon, path.startswith(url))


def _fleet(path: str) -> tuple[Link, ...]:
    return (
        Link("Fleet", "/console/", "gauge", path == "/console/", "g c"),
        Link("Queue", "/console/queue/", "list-ordered", path.startswith("/console/queue/"), "g q"),
        Link("Nodes", "/console/nodes/", "server", path.startswith("/console/nodes/"), "g n"),
        _place("Findings", "/console/findings/", "flame", path),
        _place("Offers", "/console/offers/", "cpu", path),
        Link("Images", "/console/images/", "layers", path.startswith("/console/image")),
        _place("Templates", "/console/templates/", "briefcase", path),
        _place("Quotas", "/console/quotas/", "circle-dot", path),
    )
