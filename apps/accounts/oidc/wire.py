"""What goes over the wire to a provider: its description, its keys, a code for tokens. Kept for minutes.

Redirects are never followed, answers are small and soon, and every address is https (or this machine).
"""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import jwt

from apps import tls
from apps.accounts.oidc.providers import LOOPBACK, Provider
from apps.errors import DomainError, NotAllowed

SECONDS = 5.0
LARGEST = 512 * 1024
KEPT_SECONDS = 600
KEYS_SOONEST_SECONDS = 30
"""A token with an unknown key has the keys read anew, but not for every forgery that is sent."""
WELL_KNOWN = "/.well-known/openid-configuration"


class ProviderSilent(DomainError):
    """The provider does not answer, or not as one."""

    code, status = "internal_error", 503
    hint = "Try again in a minute. Who is signed in already stays so."


@dataclass
class Known:
    """What a provider says of itself, and its keys by their ids."""

    authorization: str
    token: str
    keys_at: str
    userinfo: str
    names_itself: bool
    methods: tuple[str, ...]
    until: float
    keys: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    keys_read: float = -1e9

    def key(self, provider: Provider, kid: str, algorithm: str) -> jwt.PyJWK:
        """The key of a token: the named one, or the only one of its kind. Raises InvalidKeyError."""
        found = self._find(kid, algorithm)
        if found is None and time.monotonic() - self.keys_read > KEYS_SOONEST_SECONDS:
            self.keys, self.keys_read = _keys(provider, self.keys_at), time.monotonic()
            found = self._find(kid, algorithm)
        if found is None:
            raise jwt.InvalidKeyError("no key of the provider signed it")
        return found

    def _find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        named = {kid: self.keys[kid]} if kid in self.keys else {} if kid else self.keys
        fits = [key for each in named.values() if (key := _key(each, algorithm))]
        return fits[0] if len(fits) == 1 else None


_known: dict[Provider, Known] = {}
_lock = threading.Lock()


def known_of(provider: Provider) -> Known:
    """The provider's description, read again after ten minutes. Raises ProviderSilent."""
    found = _known.get(provider)
    if found is None or found.until < time.monotonic():
        found = _described(provider)
        with _lock:
            _known[provider] = found
    return found


def forget() -> None:
    """Read every provider anew at the next sign-in."""
    with _lock:
        _known.clear()


def post_code(provider: Provider, known: Known, *, code: str, verifier: str, back: str) -> Mapping[str, Any]:
    """What the token endpoint gives for a code; a code that it refuses is a refusal (NotAllowed)."""
    sent = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
    auth: tuple[str, str] | None = None
    if provider.client_secret and "client_secret_basic" in known.methods:
        auth = (quote(provider.client_id, safe=""), quote(provider.client_secret, safe=""))
    else:
        sent |= {"client_id": provider.client_id}
        sent |= {"client_secret": provider.client_secret} if provider.client_secret else {}
    answer = _asked(provider, "POST", known.token, data=sent, auth=auth)
    if answer.status_code in (400, 401):
        said = _object(answer.content).get("error")
        words = f" ({said[:60]})" if isinstance(said, str) else ""
        raise NotAllowed(
            f"{provider.name} refused the sign-in{words}.", hint="Start again from the sign-in page."
        )
    return _read(provider, answer)


def userinfo_of(provider: Provider, known: Known, access: str) -> Mapping[str, Any]:
    """What the provider tells of whoever the access token is of."""
    headers = {"Authorization": f"Bearer {access}"}
    return _read(provider, _asked(provider, "GET", known.userinfo, headers=headers))


def _described(provider: Provider) -> Known:
    said = _read(provider, _asked(provider, "GET", f"{provider.issuer.rstrip('/')}{WELL_KNOWN}"))
    if said.get("issuer") != provider.issuer:
        raise ProviderSilent(f"{provider.name} calls itself otherwise than the settings do.")
    methods = said.get("token_endpoint_auth_methods_supported")
    return Known(
        authorization=_address(provider, said, "authorization_endpoint"),
        token=_address(provider, said, "token_endpoint"),
        keys_at=_address(provider, said, "jwks_uri"),
        userinfo=_address(provider, said, "userinfo_endpoint") if said.get("userinfo_endpoint") else "",
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        methods=tuple(map(str, methods)) if isinstance(methods, list) else ("client_secret_basic",),
        until=time.monotonic() + KEPT_SECONDS,
    )


def _address(provider: Provider, said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not _is_safe(provider, value):
        raise ProviderSilent(f"{provider.name} has no safe {name}.")
    return value


def _is_safe(provider: Provider, address: str) -> bool:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises for what is no number
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or _is_here(provider, parts.scheme, parts.hostname)
    )


def _is_here(provider: Provider, scheme: str, host: str | None) -> bool:
    """A provider of this machine may be plain, as in development; one far away leads nobody here."""
    return scheme == "http" and host in LOOPBACK and urlsplit(provider.issuer).hostname in LOOPBACK


def _keys(provider: Provider, address: str) -> dict[str, Mapping[str, Any]]:
    said = _read(provider, _asked(provider, "GET", address)).get("keys")
    keys = [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
    return {str(each.get("kid") or f"#{number}"): each for number, each in enumerate(keys)}


def _key(said: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """The key, if it is one for signatures of this kind; never a shared secret."""
    if said.get("use", "sig") != "sig" or said.get("alg", algorithm) != algorithm or said.get("kty") == "oct":
        return None
    try:
        return jwt.PyJWK(dict(said), algorithm)
    except jwt.PyJWTError:
        return None


def _asked(provider: Provider, method: str, address: str, **more: Any) -> httpx.Response:
    try:
        with _client(provider.ca_file).stream(method, address, **more) as answer:
            body, until = b"", time.monotonic() + SECONDS
            for block in answer.iter_bytes():
                body += block
                if len(body) > LARGEST or time.monotonic() > until:
                    raise ProviderSilent(f"{provider.name} answers without end.")
            return httpx.Response(answer.status_code, content=body)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderSilent(f"{provider.name} does not answer ({type(error).__name__}).") from None


@cache
def _client(ca_file: str) -> httpx.Client:
    trusted = tls.trusting(file=ca_file) if ca_file else True
    return httpx.Client(verify=trusted, timeout=SECONDS, follow_redirects=False, trust_env=not ca_file)


def _read(provider: Provider, answer: httpx.Response) -> Mapping[str, Any]:
    said = _object(answer.content) if answer.status_code == httpx.codes.OK else {}
    if not said:
        raise ProviderSilent(f"{provider.name} answers {answer.status_code} and nothing that can be read.")
    return said


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
