"""How often one may try a password or a one-time link, so that guessing is slow and nobody is shut out.

A try is counted for the account at its address, for the address, for the account from anywhere, and for
everybody together, the narrow ones first: what one limit refuses fills none of the wider ones. What turned
out right is taken back. A stranger can fill the limit of an account; the browsers in which its owner signed
in before are known by a signed cookie, and count for themselves alone.
"""

import secrets
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self, TypeVar

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac

from apps.web.requests import limits
from apps.web.requests.client_address import client_network
from apps.web.requests.limits import Policy

AT_ADDRESS = Policy("sign-in-here", 5)
FROM_DEVICE = Policy("sign-in-device", 5)
OF_ADDRESS = Policy("sign-in-address", 20)
OF_ACCOUNT = Policy("sign-in-account", 50, 300)
OVERALL = Policy("sign-in-overall", 600)
OF_STEP, OF_REST = Policy("second-step", 5), Policy("second-step-rest", 20)
"""The second step of an account at its address: codes of the app, and what nobody guesses. Codes have a limit
of their own over all addresses: see `second_factor.factors.accepts`.
"""
IN_SESSION, BY_ACCOUNT = Policy("proof-session", 5), Policy("proof-account", 30)
"""Proofs under `/me/`, by who is signed in."""
TO_PROVIDER = Policy("provider-address", 120)
TO_PROVIDERS = Policy("provider-overall", 600)
OF_LINKS = Policy("link-address", 20)
TO_PASSKEY = Policy("passkey-address", 60)
"""No limit of all together, which ten addresses would fill."""
Answer = TypeVar("Answer", bound=HttpResponseBase)
DEVICE_LIFE = timedelta(days=365)
_SALT, _ALL = "sign-in", "all"


@dataclass(frozen=True)
class Try:
    """One try, and what it is counted for."""

    counted: tuple[tuple[Policy, str], ...]
    at: datetime
    username: str = ""

    @classmethod
    def of_account(cls, request: HttpRequest, username: str, at: datetime) -> Self:
        """A password for this name, whether there is such an account or not."""
        account, address = _account(username), client_network(request)
        if device := _device(request, account):
            return cls(((FROM_DEVICE, f"{account}:{device}"),), at, username)
        here = (AT_ADDRESS, f"{account}:{address}")
        return cls((here, (OF_ADDRESS, address), (OF_ACCOUNT, account), (OVERALL, _ALL)), at, username)

    @classmethod
    def of_step(cls, request: HttpRequest, username: str, at: datetime, *, is_code: bool) -> Self:
        """What is shown after the password. Codes of the app take no tries from recovery codes and passkeys,
        and strangers without the password none at all.
        """
        policy = OF_STEP if is_code else OF_REST
        return cls(((policy, f"{_account(username)}:{client_network(request)}"),), at, username)

    @classmethod
    def of_proof(cls, request: HttpRequest, username: str, at: datetime) -> Self:
        """That it is the owner, of somebody signed in: strangers take no tries from them."""
        session = request.session.session_key or ""
        return cls(((IN_SESSION, session), (BY_ACCOUNT, _account(username))), at, username)

    @classmethod
    def of_link(cls, request: HttpRequest, at: datetime) -> Self:
        """A one-time link."""
        return cls(((OF_LINKS, client_network(request)),), at)

    @classmethod
    def of_provider(cls, request: HttpRequest, at: datetime) -> Self:
        """A way to a provider: each is a row for minutes. It takes nothing from the tries of passwords, which
        are the way in when a provider is broken.
        """
        return cls(((TO_PROVIDER, client_network(request)), (TO_PROVIDERS, _ALL)), at)

    @classmethod
    def of_passkey(cls, request: HttpRequest, at: datetime) -> Self:
        """A question to a passkey without a password: each is a row for minutes. No answer can be guessed."""
        return cls(((TO_PASSKEY, client_network(request)),), at)

    def spend(self) -> limits.Allowance | None:
        """Count it; answers the limit that refuses it, None when it is free."""
        for policy, who in self.counted:
            allowance = limits.spend(policy, who, self.at)
            if allowance and allowance.remaining < 0:
                return allowance
        return None

    def give_back(self) -> None:
        """Takes the count back of what was right but opened nothing yet."""
        for policy, who in self.counted:
            limits.give_back(policy, who, self.at)

    def was_right(self, request: HttpRequest, response: Answer) -> Answer:
        """Takes the count back: forty people behind one address may sign in at nine o'clock. The browser is
        the account's own from now on.
        """
        self.give_back()
        return know_device(request, response, self.username) if self.username else response


def know_device(request: HttpRequest, response: Answer, username: str) -> Answer:
    """From now on this browser is one of the account's own."""
    account = _account(username)
    response.set_signed_cookie(
        _cookie(account),
        _device(request, account) or secrets.token_urlsafe(16),
        salt=_SALT,
        max_age=DEVICE_LIFE,
        path="/sign-in/",
        secure=settings.CONFIG.is_https,
        httponly=True,
        samesite="Strict",
    )
    return response


def _device(request: HttpRequest, account: str) -> str:
    """Empty for a browser that never signed in to this account. The signature covers the cookie's name, so
    one account's cookie is worth nothing for another.
    """
    return request.get_signed_cookie(_cookie(account), default="", salt=_SALT, max_age=DEVICE_LIFE) or ""


def _cookie(account: str) -> str:
    prefix = "__Secure-" if settings.CONFIG.is_https else ""
    return f"{prefix}allotment_device_{account}"


def _account(username: str) -> str:
    """The account as a cookie's name and Redis know it: without its name."""
    plain = unicodedata.normalize("NFKC", username).casefold()
    return salted_hmac("allotment.sign-in.account", plain, algorithm="sha256").hexdigest()[:24]
