"""Credentials at rest: what is kept in the database is sealed with the installation's secret key.

A copy of the database alone opens no cluster and no account. A sealed text is `1.<key>.<base64url>`:
AES-256-GCM with a random nonce in front (NIST SP 800-38D), under a key of its own for each purpose. It names
the secret key that opens it, by eight digits that say nothing about it. Texts without that name are Fernet's,
as they were sealed before.

The secret key is changed without a loss (docs/operating.md): the new one seals, and those in
`SECRET_KEY_FALLBACKS` still open until `portal.operate.rotation` has sealed everything anew. What no key
opens any more is lost: register the clusters again then, set the tenants' registries and the secrets of
workloads anew, and reset people's second factors (docs/sign-in.md).
"""

import base64
import hashlib
import hmac
import os
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

IDE, SALT = "ide", "salt"
"""The purposes of what is said to a notebook's IDE, and of what makes the digest of its Secret no help to
guess what is in it.
"""
SSH_HOST = "ssh-host"
"""The purpose of the key by which programs know this installation's SSH server."""
RECOVERY = "recovery-code"
"""The purpose of the digest of a code that is short enough to be written down: see `derived`."""
KUBECONFIG, REGISTRY, SECRET, AUTHENTICATOR = "kubeconfig", "registry", "secret", "authenticator"
"""What is sealed: each with a key of its own, so that the one cannot be passed off as the other."""
FORM = "1"
NONCE_BYTES = 12
KEY_NAME_LENGTH = 8


class KeyMissing(ValueError):
    """The secret key that would be needed is not among the settings."""


def seal(text: str, purpose: str = KUBECONFIG) -> str:
    """The text, readable only with this installation's secret key and for this purpose."""
    name, nonce = key_in_force(), os.urandom(NONCE_BYTES)
    body = _cipher(settings.SECRET_KEY, purpose).encrypt(nonce, text.encode(), f"{FORM}.{name}".encode())
    return f"{FORM}.{name}.{base64.urlsafe_b64encode(nonce + body).decode()}"


def unseal(sealed: str, purpose: str = KUBECONFIG) -> str:
    """What was sealed; ValueError when its secret key is none of ours, or the text was tampered with."""
    form, _, rest = sealed.partition(".")
    try:
        return _opened(rest, purpose) if form == FORM else _opened_before(sealed, purpose)
    except (InvalidTag, InvalidToken, ValueError):
        raise ValueError("it was sealed with another secret key, or changed since") from None


def key_of(sealed: str) -> str:
    """The name of the secret key that a text was sealed with; empty where the text does not say it."""
    form, _, rest = sealed.partition(".")
    return rest[:KEY_NAME_LENGTH] if form == FORM else ""


def key_in_force() -> str:
    """The name of the secret key that seals."""
    return _name(settings.SECRET_KEY)


def oldest_key() -> str:
    """The name of the secret key that has been listed longest: what names none is believed to be of it."""
    return _name(_keys()[-1])


def former_keys() -> list[str]:
    """The names of the secret keys that no longer seal and still open, the newest first."""
    return [_name(secret) for secret in settings.SECRET_KEY_FALLBACKS]


def derived(purpose: str, of: str, key: str | None = None) -> str:
    """A secret that is kept nowhere: the same for the same purpose and thing, and with this secret key
    alone. `key` names another one than that in force; raises KeyMissing where that is not listed.
    """
    return _derived(_secret(key) if key is not None else settings.SECRET_KEY, purpose, of)


def derivable(purpose: str, of: str) -> list[str]:
    """What `derived` answers by each secret key that is listed, that in force first."""
    return [_derived(secret, purpose, of) for secret in _keys()]


def _derived(secret: str, purpose: str, of: str) -> str:
    return hmac.new(secret.encode(), f"allotment:{purpose}:{of}".encode(), "sha256").hexdigest()


def _opened(rest: str, purpose: str) -> str:
    name, _, body = rest.partition(".")
    kept = base64.urlsafe_b64decode(body)
    bound = f"{FORM}.{name}".encode()
    return _cipher(_secret(name), purpose).decrypt(kept[:NONCE_BYTES], kept[NONCE_BYTES:], bound).decode()


def _opened_before(sealed: str, purpose: str) -> str:
    for secret in _keys():
        try:
            return Fernet(base64.urlsafe_b64encode(_key(secret, purpose))).decrypt(sealed.encode()).decode()
        except InvalidToken:
            continue
    raise InvalidToken


def _cipher(secret: str, purpose: str) -> AESGCM:
    # Another key than Fernet's for the same purpose: no key serves two ciphers.
    return AESGCM(_key(secret, f"aes-gcm:{purpose}"))


def _key(secret: str, purpose: str) -> bytes:
    # A key of its own: what is sealed here tells nothing about signatures made with the same secret.
    return hashlib.sha256(f"allotment:{purpose}:".encode() + secret.encode()).digest()


def _keys() -> tuple[str, ...]:
    return (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


def _secret(name: str) -> str:
    for secret in _keys():
        if hmac.compare_digest(_name(secret), name):
            return secret
    raise KeyMissing("the secret key is another one")


@cache
def _name(secret: str) -> str:
    return _derived(secret, "key", "name")[:KEY_NAME_LENGTH]
