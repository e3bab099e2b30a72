"""Credentials at rest: what is kept in the database is sealed with the installation's secret key.

A copy of the database alone opens no cluster. A changed secret key makes every sealed text unreadable:
register the clusters again then.
"""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


def seal(text: str) -> str:
    """The text, readable only with this installation's secret key."""
    return _fernet().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """What was sealed; ValueError when the secret key is another one, or the text was tampered with."""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise ValueError("it was sealed with another secret key") from None


def _fernet() -> Fernet:
    # A key of its own: what is sealed here tells nothing about signatures made with the same secret.
    digest = hashlib.sha256(b"allotment:kubeconfig:" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
