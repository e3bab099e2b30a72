"""Signing in with a provider, from the button to the answer: what is kept between, once and for minutes."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from apps.accounts.models import SignInFlow, User
from apps.accounts.oidc import client
from apps.accounts.oidc.client import Identity, Secrets, SignInRefused
from apps.accounts.oidc.providers import Provider
from apps.accounts.tokens import digest
from apps.errors import NotFound
from apps.web.requests.perimeter import public

LIFE = timedelta(minutes=10)


@dataclass(frozen=True)
class Begun:
    """Where the browser goes, and the secret that it brings back in a cookie."""

    address: str
    cookie: str


@dataclass(frozen=True)
class Brought:
    """Whom the provider brought; `user` is who asked to connect it, None for a sign-in."""

    provider: Provider
    identity: Identity
    way_on: str
    user: User | None


def providers() -> tuple[Provider, ...]:
    """The providers of this installation, in the order of the buttons."""
    found: tuple[Provider, ...] = settings.CONFIG.providers
    return found


def provider_of(slug: str) -> Provider:
    """One provider; raises NotFound."""
    for each in providers():
        if each.slug == slug:
            return each
    raise NotFound


def begin(provider: Provider, *, way_on: str, user: User | None, now: datetime) -> Begun:
    """Keeps what the answer must match, for ten minutes. Raises ProviderSilent."""
    kept, cookie = Secrets.new(), secrets.token_urlsafe(32)
    address = client.address_of(provider, kept, _back(provider))
    with transaction.atomic():
        SignInFlow.objects.filter(expires_at__lt=now).delete()
        SignInFlow.objects.create(
            digest=digest(cookie),
            provider=provider.slug,
            way_on=way_on[:2000],
            user=user,
            expires_at=now + LIFE,
            **kept.__dict__,
        )
    return Begun(address, cookie)


def finish(provider: Provider, *, cookie: str, answer: dict[str, str], now: datetime) -> Brought:
    """Whom the provider brought to this browser.

    Rule: the flow is used up by the first answer that names it. The answer must come to the browser that
    asked, at the address of the provider that was asked, and from that one. Raises SignInRefused.
    """
    flow = _used_up(cookie, now)
    if flow is None or flow.provider != provider.slug:
        raise SignInRefused("This sign-in was not begun here, is over, or was used already.")
    if not secrets.compare_digest(flow.state.encode(), answer.get("state", "").encode()):
        raise SignInRefused("This answer belongs to another sign-in.")
    client.require_issuer(provider, answer.get("iss"))
    if "error" in answer:
        raise SignInRefused(f"{provider.name} did not sign you in ({answer['error'][:60]}).")
    if not answer.get("code"):
        raise SignInRefused(f"{provider.name} sent no code.")
    kept = Secrets(flow.state, flow.nonce, flow.verifier)
    identity = client.identity_of(provider, kept, answer["code"], _back(provider))
    return Brought(provider, identity, flow.way_on, flow.user)


def _used_up(cookie: str, now: datetime) -> SignInFlow | None:
    if not cookie:
        return None
    found = (
        SignInFlow.objects.select_related("user").filter(digest=digest(cookie), expires_at__gt=now).first()
    )
    # Of two answers at once, one is the first.
    is_first = found is not None and SignInFlow.objects.filter(pk=found.pk).delete()[0] == 1
    return found if is_first else None


def _back(provider: Provider) -> str:
    """Each provider has its own address: an answer of another one is never taken for its."""
    return public(f"/sign-in/with/{provider.slug}/back/")
