"""Whether certificates have ended or soon will: each API server's, ours towards it, the portal's, the apps'.

A server's own is asked for, so only `manage.py doctor` looks at those; ours stands in the kubeconfig.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import certificates, connecting
from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import Cluster
from apps.cluster.specs import Endpoint
from portal.config import Config
from portal.operate.findings import Finding, note, ok, wrong

SOON, SHARE = timedelta(days=14), 6
"""It is wrong so long before its end; of one that is made anew more often, for the last sixth of its life."""
PATIENCE_SECONDS, HTTPS = 3.0, 443
Judge = Callable[[str, str], None]
SERVER = "Renew it on the control plane (kubeadm: `kubeadm certs renew apiserver`); the kubeconfig stays"
CLIENT = "Give a kubeconfig with a new one: change the file, or `PATCH clusters/{slug}`; a token needs none"
PORTAL = "Renew it at the proxy that holds it; with the chart, the Secret that the Ingress names"


def check(config: Config, now: datetime, *, whole: bool) -> Iterator[Finding]:
    """A finding for each certificate; of those that servers show only if `whole`."""
    for cluster, way in _ways():
        if way.certificate:
            cure = CLIENT.format(slug=cluster.slug)
            yield judged(f"client certificate of {cluster.slug}", way.certificate, cure, now)
        if whole:
            judge = None if cluster.kubeconfig_path else connecting.judge
            yield from _served(f"certificate of {cluster.slug}", way.server, SERVER, now, judge=judge)
    if whole:
        yield from _served("certificate of the portal", config.public_url, PORTAL, now)
        # One for all hosts below it, and that domain itself need not lead anywhere.
        apps = config.apps_url.replace("://", "://any.", 1)
        yield from _served("certificate of the apps", apps, PORTAL, now)


def due() -> Iterator[tuple[str, datetime]]:
    """From when on `judged` says that our own certificate is wrong, by the cluster's slug; one statement."""
    for cluster, way in _ways():
        if known := certificates.validity(way.certificate):
            yield cluster.slug, _renewed_by(*known)


def _ways() -> Iterator[tuple[Cluster, Endpoint]]:
    for cluster in Cluster.objects.order_by("slug"):
        try:
            yield cluster, open_gateway(cluster).endpoint()
        except (Unreachable, OSError):
            continue  # that it leads nowhere is said of its watch


def _renewed_by(begins: datetime, ends: datetime) -> datetime:
    return ends - min(SOON, (ends - begins) / SHARE)


def judged(name: str, pem: bytes, cure: str, now: datetime) -> Finding:
    """What its dates say of a certificate. Pure."""
    known = certificates.validity(pem)
    if known is None:
        return note(name, "it cannot be read", cure)
    begins, ends = known
    at = f"{ends:%Y-%m-%d %H:%M} UTC"
    if now > ends:
        return wrong(name, f"expired on {at}", cure)
    if now < begins:
        return wrong(name, f"not valid before {begins:%Y-%m-%d %H:%M} UTC", "See the clocks of both machines")
    if now > _renewed_by(begins, ends):
        return wrong(name, f"expires on {at}, in {(ends - now) / timedelta(days=1):.1f} days", cure)
    return ok(name, f"good until {at}")


def _served(
    name: str, url: str, cure: str, now: datetime, *, judge: Judge | None = None
) -> Iterator[Finding]:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        return
    try:
        pem = certificates.served(parts.hostname, parts.port or HTTPS, PATIENCE_SECONDS, judge)
    except OSError:
        seen, look = "it cannot be asked for from here", "Look with `openssl s_client -connect <host>:443`"
        yield replace(note(name, seen, look), local=True)
    else:
        yield judged(name, pem, cure, now)
