"""Credentials at rest: what is kept in the database is sealed with the installation's secret key.

A copy of the database alone opens no cluster and no account. A changed secret key makes every sealed text
unreadable: register the clusters again then, set the tenants' registries and the secrets of workloads anew,
and reset people's second factors (docs/sign-in.md).
"""

import base64
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken
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


def seal(text: str, purpose: str = KUBECONFIG) -> str:
    """The text, readable only with this installation's secret key and for this purpose."""
    return _fernet(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, purpose: str = KUBECONFIG) -> str:
    """What was sealed; ValueError when the secret key is another one, or the text was tampered with."""
    try:
        return _fernet(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise ValueError("it was sealed with another secret key") from None


def derived(purpose: str, of: str) -> str:
    """A secret that is kept nowhere: the same for the same purpose and thing, and with this secret key
    alone.
    """
    return hmac.new(settings.SECRET_KEY.encode(), f"allotment:{purpose}:{of}".encode(), "sha256").hexdigest()


def _fernet(purpose: str) -> Fernet:
    # A key of its own: what is sealed here tells nothing about signatures made with the same secret.
    digest = hashlib.sha256(f"allotment:{purpose}:".encode() + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
