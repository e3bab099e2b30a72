"""OpenID Connect as a client: where to send a browser, and whom a provider says that it brought back.

Authorization code with PKCE (RFC 9700). Every answer of a provider is checked as if a stranger had sent it.
Knows no database and no session: `flows` keeps what belongs to a browser.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt

from apps.accounts.oidc.providers import ALGORITHMS, Provider
from apps.accounts.oidc.wire import Known, known_of, post_code, userinfo_of
from apps.errors import NotAllowed

LEEWAY_SECONDS = 60
LONGEST_SUBJECT = 255
MOST_GROUPS = 1000
LONGEST_GROUP = 255


class SignInRefused(NotAllowed):
    """A provider's answer that is not believed, or a person who may not come in."""

    hint = "Start again from the sign-in page. If it happens again, ask a platform engineer."


@dataclass(frozen=True)
class Secrets:
    """What ties an answer to the browser that asked: `state` to the request, `nonce` to the token, and the
    verifier (PKCE) to the code.
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Secrets":
        """256 random bits each."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))


@dataclass(frozen=True)
class Identity:
    """Whom a provider brought: known by issuer and subject. The rest is what it says of them today."""

    issuer: str
    subject: str
    username: str = ""
    name: str = ""
    email: str = ""
    is_mail_verified: bool = False
    groups: tuple[str, ...] = ()


def address_of(provider: Provider, kept: Secrets, back: str) -> str:
    """Where the browser goes to sign in. Raises ProviderSilent."""
    known = known_of(provider)
    digest = hashlib.sha256(kept.verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": back,
        "scope": provider.scopes,
        "state": kept.state,
        "nonce": kept.nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    joint = "&" if urlsplit(known.authorization).query else "?"
    return f"{known.authorization}{joint}{urlencode(asked)}"


def require_issuer(provider: Provider, said: str | None) -> None:
    """Refuses an answer of another provider (mix-up, RFC 9207): who is named must be who was asked."""
    known = known_of(provider)
    if said is None and not known.names_itself:
        return
    if said != provider.issuer:
        raise SignInRefused(f"The answer did not come from {provider.name}.")


def identity_of(provider: Provider, kept: Secrets, code: str, back: str) -> Identity:
    """Whom the code stands for. Raises SignInRefused and ProviderSilent."""
    known = known_of(provider)
    answer = post_code(provider, known, code=code, verifier=kept.verifier, back=back)
    token, access = answer.get("id_token"), answer.get("access_token")
    if not isinstance(token, str):
        raise SignInRefused(f"{provider.name} did not say who signed in.")
    said = access if isinstance(access, str) else ""
    claims = _claims(provider, known, token, nonce=kept.nonce, access=said)
    if provider.groups_claim not in claims and known.userinfo and isinstance(access, str):
        more = userinfo_of(provider, known, access)
        if more.get("sub") != claims["sub"]:
            raise SignInRefused(f"{provider.name} told of somebody else than who signed in.")
        claims = {**more, **claims}
    return _identity(provider, claims)


def _claims(provider: Provider, known: Known, token: str, *, nonce: str, access: str) -> dict[str, Any]:
    """The claims of a token that is right in every point, and no other."""
    try:
        head = jwt.get_unverified_header(token)
        algorithm = head.get("alg")
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError(f"signed by {str(algorithm)[:20]}")
        key = known.key(provider, str(head.get("kid") or ""), str(algorithm))
        claims: dict[str, Any] = jwt.decode(
            token,
            key=key,
            algorithms=[str(algorithm)],
            issuer=provider.issuer,
            audience=provider.client_id,
            leeway=LEEWAY_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat"], "verify_iat": True},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise SignInRefused(f"The token of {provider.name} is not believed: {str(error)[:120]}.") from None
    wrong = _wrong(provider, claims, nonce) or _wrong_access(claims, access, str(algorithm))
    if wrong:
        raise SignInRefused(f"The token of {provider.name} is not believed: {wrong}.")
    return claims


def _wrong(provider: Provider, claims: Mapping[str, Any], nonce: str) -> str:
    """What is wrong with claims whose signature, issuer, audience and times are right."""
    said = claims.get("nonce")
    if not isinstance(said, str) or not secrets.compare_digest(said.encode(), nonce.encode()):
        return "it answers another sign-in"
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or "\0" in subject:
        return "it names nobody"
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    party = claims.get("azp")
    if party != provider.client_id and (several or party is not None):
        return "it was made for another program"
    return ""


def _wrong_access(claims: Mapping[str, Any], access: str, algorithm: str) -> str:
    said = claims.get("at_hash")
    if said is None:
        return ""
    digest = jwt.get_algorithm_by_name(algorithm).compute_hash_digest(access.encode())
    half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()
    return "" if said == half else "it belongs to another answer"


def _identity(provider: Provider, claims: Mapping[str, Any]) -> Identity:
    named = claims.get("_claim_names")
    if isinstance(named, Mapping) and provider.groups_claim in named:
        raise _too_many_groups(provider)
    return Identity(
        issuer=provider.issuer,
        subject=claims["sub"],
        username=_text(claims.get(provider.username_claim)),
        name=_text(claims.get("name")),
        # An address that the provider itself doubts is nobody's: who is invited is known by it.
        email="" if claims.get("email_verified") is False else _text(claims.get("email")),
        is_mail_verified=claims.get("email_verified") is True,
        groups=_groups(provider, claims.get(provider.groups_claim)),
    )


def _groups(provider: Provider, said: Any) -> tuple[str, ...]:
    several = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    if len(several) > MOST_GROUPS:
        raise _too_many_groups(provider)
    names = {name for name in several if isinstance(name, str) and 0 < len(name) <= LONGEST_GROUP}
    return tuple(sorted(name for name in names if "\0" not in name))


def _too_many_groups(provider: Provider) -> SignInRefused:
    """Never a part of them: what rules give for the others would be taken back."""
    words = f"{provider.name} did not send your groups: there are too many."
    return SignInRefused(words, hint="Its administrator can limit which groups are sent to this program.")


def _text(said: Any) -> str:
    return said.replace("\0", "").strip()[:254] if isinstance(said, str) else ""
