"""An organisation's sign-in as an installation is told of it (`ALLOTMENT_OIDC`). Pure.

The list is JSON: `[{"slug": "acme", "name": "Acme", "issuer": "https://...", "client_id": "allotment",
"client_secret": "..."}]`. What is left out has its usual value.
"""

from collections.abc import Sequence
from functools import cache
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a key pair alone: `none` and shared secrets are never believed."""


class Provider(BaseModel):
    """An OpenID Connect provider. A person is known by `issuer` and the token's subject, by nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slug: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")
    name: str = Field(min_length=1, max_length=60)
    issuer: str = Field(pattern=r"^https?://[^\s?#]+$", max_length=500)
    client_id: str = Field(min_length=1, max_length=255)
    client_secret: str = Field(default="", repr=False)
    """Empty: a public client, which PKCE alone protects."""
    scopes: str = "openid profile email"
    groups_claim: str = Field(default="groups", min_length=1)
    username_claim: str = Field(default="preferred_username", min_length=1)
    ca_file: str = ""
    """PEM of the authority that signed its certificate; empty: the system's."""

    @property
    def is_safe(self) -> bool:
        """Whether nobody between can read along: https, or the same machine."""
        parts = urlsplit(self.issuer)
        return parts.scheme == "https" or parts.hostname in LOOPBACK


@cache
def parse(text: str) -> tuple[Provider, ...]:
    """The providers of a JSON list; empty text: none. Raises ValueError, which tells no secret."""
    if not text.strip():
        return ()
    try:
        found = tuple(TypeAdapter(list[Provider]).validate_json(text))
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, each['loc'])) or 'list'}: {each['msg']}" for each in error.errors())
        raise ValueError(f"must be a JSON list of providers; {', '.join(wrong)}") from None
    problems = [*_twice(found), *_unsafe(found)]
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _twice(found: Sequence[Provider]) -> list[str]:
    slugs, issuers = [each.slug for each in found], [each.issuer for each in found]
    wrong = [f"the slug {slug} stands there twice" for slug in sorted(set(slugs)) if slugs.count(slug) > 1]
    # Two of one issuer would be two ways to one identity, with two sets of rules.
    return wrong + [f"{each} stands there twice" for each in sorted(set(issuers)) if issuers.count(each) > 1]


def _unsafe(found: Sequence[Provider]) -> list[str]:
    wrong = [f"{each.slug}: the issuer must be https://..." for each in found if not each.is_safe]
    lacks = [
        f"{each.slug}: scopes must include openid" for each in found if "openid" not in each.scopes.split()
    ]
    return wrong + lacks
