"""The codes of a second factor: those that an app makes anew every 30 seconds (RFC 6238), and those on paper.

Pure. Six digits of HMAC-SHA-1, as every authenticator app knows them.
"""

import base64
import hmac
import re
from collections.abc import Collection
from datetime import datetime
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

STEP_SECONDS, DIGITS, SECRET_BYTES = 30, 6, 20
DRIFT = 1
"""How many steps a phone's clock may be early or late."""
MOST_CODES, CODE_BYTES = 10, 8
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's: without i, l, o and u, which are misread."""
_LENGTH, _GROUP = 12, 4
_MISREAD = str.maketrans("ilo", "110")


def matching_step(secret: bytes, code: str, *, now: datetime, after: int) -> int | None:
    """The step whose code this is, within `DRIFT` of now; None for a wrong code.

    Rule: only a step later than `after`, the last one accepted: a code that somebody saw being typed is worth
    nothing.
    """
    typed, here = digits_of(code), int(now.timestamp()) // STEP_SECONDS
    found = None
    for step in range(here - DRIFT, here + DRIFT + 1):
        is_same = hmac.compare_digest(code_at(secret, step).encode(), typed.encode())
        found = step if is_same and step > after else found
    return found


def code_at(secret: bytes, step: int) -> str:
    """What an app shows in this step."""
    made = TOTP(secret, DIGITS, SHA1(), STEP_SECONDS, enforce_key_length=False)  # noqa: S303 - RFC 6238
    return made.generate(step * STEP_SECONDS).decode()


def digits_of(code: str) -> str:
    """As typed, without the blanks that apps show in the middle."""
    return re.sub(r"\D", "", code, flags=re.ASCII)


def typed_secret(secret: bytes) -> str:
    """The secret as people type it into an app: base 32, in groups of four."""
    text = base64.b32encode(secret).decode().rstrip("=")
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def app_address(secret: bytes, *, issuer: str, account: str) -> str:
    """What the QR code says."""
    told = {"secret": typed_secret(secret).replace(" ", ""), "issuer": issuer}
    return f"otpauth://totp/{quote(issuer)}:{quote(account)}?{urlencode(told, quote_via=quote)}"


def recovery_code(random: bytes) -> str:
    """A code of 60 random bits such as `3k7q-0vbm-x9ra`."""
    if len(random) != CODE_BYTES:
        raise ValueError(f"a code is made of {CODE_BYTES} random bytes, not {len(random)}")
    number, letters = int.from_bytes(random, "big"), []
    for _ in range(_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "-".join("".join(letters[at : at + _GROUP]) for at in range(0, _LENGTH, _GROUP))


def plain(code: str) -> str:
    """A recovery code as it is compared: however it was typed, and with what is misread put right."""
    return re.sub(r"[^0-9a-z]", "", code.casefold()).translate(_MISREAD)


def as_file(codes: Collection[str], *, account: str, place: str) -> str:
    """What is downloaded."""
    head = f"Recovery codes of {account} at {place}\nEach opens the account once, after the password.\n\n"
    return head + "".join(f"{code}\n" for code in codes)
