"""A public key as a person pastes it: the line of a .pub file, checked and normalised. Pure.

No refusal repeats what was pasted: it may be a private key.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from apps.errors import FieldProblem, Invalid

MOST_BYTES = 16 * 1024
FEWEST_BITS, MOST_BITS = 2048, 16384
"""Of RSA: as OpenSSH has its upper limit, since longer ones take long to check at each connection."""
PRIVATE = "This is a private key. Paste the .pub file's line; make a new key pair, because this one was sent."
NOT_WHOLE = (
    "This is no whole key. Copy the line of the .pub file again, from its first to its last character."
)
_PRIVATE_MARK = re.compile(r"PRIVATE KEY ?-{4}|PuTTY-User-Key-File|Private-Lines:|b3BlbnNzaC1rZXktdjE")
"""PEM and its kin, PuTTY, and OpenSSH's own form without its first line."""
_OTHER_FORM = re.compile(r"BEGIN [A-Z0-9 ]*PUBLIC KEY")


@dataclass(frozen=True)
class PublicKey:
    """`text` is type and base64, the same for everybody who has the key. `fingerprint` is as
    `ssh-keygen -l` prints it. `comment` is printable, and may be empty.
    """

    text: str
    fingerprint: str
    comment: str

    @property
    def type(self) -> str:
        """Such as ssh-ed25519."""
        return self.text.partition(" ")[0]


def read(pasted: str) -> PublicKey:
    """The key of a pasted line. Raises Invalid for /text, with what to do.

    Rule: only the types in `TYPES`, RSA of 2048 to 16384 bits; no options, no certificate, one key. The type
    inside the key is the one in front, and the encoding is OpenSSH's own, so that a key has one fingerprint.
    """
    words = _one_line(pasted).split(None, 2)
    kind = words[0]
    check = _CHECKS.get(kind)
    if check is None:
        raise _refusal(_unknown_type(words))
    blob = _decoded(words)
    parts = _strings(blob)
    if parts[0] != kind.encode():
        raise _refusal("The type in front is not the type of the key behind it. Copy the line again.")
    text = f"{kind} {base64.b64encode(blob).decode()}"
    try:
        check(text, parts)
    except (ValueError, UnsupportedAlgorithm):
        raise _refusal(NOT_WHOLE) from None
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    comment = "".join(letter for letter in " ".join(words[2:]) if letter.isprintable()).strip()
    return PublicKey(text, f"SHA256:{digest}", comment)


def _one_line(pasted: str) -> str:
    # First of all: whatever else is wrong, the owner of a private key must hear of it.
    if _PRIVATE_MARK.search(pasted):
        raise _refusal(PRIVATE)
    line = pasted.strip()
    if not line:
        raise _refusal("Paste the line of a .pub file.", code="required")
    if len(line.encode(errors="replace")) > MOST_BYTES:
        raise _refusal("This is longer than any public key: 16 KiB at most.", code="out_of_range")
    if _OTHER_FORM.search(line):
        raise _refusal("This is another form of a public key. `ssh-keygen -i -f FILE` prints the line.")
    if len(line.splitlines()) > 1:
        raise _refusal("These are several lines. Paste the line of one key, without line breaks.")
    return line


def _unknown_type(words: Sequence[str]) -> str:
    kind, known = words[0], f"Taken are {', '.join(TYPES)}."
    if any(word in TYPES for rest in words[1:] for word in rest.split()):
        return "Something stands before the key's type. Paste the key without options: they are not taken."
    if kind.endswith("-cert-v01@openssh.com"):
        return "This is a certificate. Paste the line of the key itself, from the .pub file without -cert."
    if kind == "ssh-dss":
        return "DSA keys are not safe any more. Make another key: `ssh-keygen -t ed25519`."
    return f"A public key begins with its type. {known}"


def _decoded(words: Sequence[str]) -> bytes:
    if len(words) < 2:
        raise _refusal(NOT_WHOLE)
    try:
        return base64.b64decode(words[1], validate=True)
    except ValueError:
        raise _refusal(f"What follows the type is not base64. {NOT_WHOLE}") from None


def _strings(blob: bytes) -> list[bytes]:
    """What a key consists of (RFC 4251, section 5: length and bytes, one after the other); never empty."""
    parts, rest = [], blob
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        if len(rest) < end:
            raise _refusal(NOT_WHOLE)
        parts.append(rest[4:end])
        rest = rest[end:]
    if not parts:
        raise _refusal(NOT_WHOLE)
    return parts


def _plain(text: str, _parts: Sequence[bytes]) -> None:
    key = load_ssh_public_key(text.encode())
    if isinstance(key, RSAPublicKey):
        _check_bits(key.key_size)
    # The same key in another encoding would have another fingerprint, and two people could keep it.
    if key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) != text.encode():
        raise ValueError("not OpenSSH's own encoding")


def _check_bits(bits: int) -> None:
    if bits < FEWEST_BITS:
        words = f"This RSA key has {bits} bits: {FEWEST_BITS} are the least, 3072 are better."
        raise _refusal(f"{words} Make another key: `ssh-keygen -t ed25519`.")
    if bits > MOST_BITS:
        raise _refusal(f"This RSA key has {bits} bits: {MOST_BITS} are the most.")


def _ed25519_of_a_token(_text: str, parts: Sequence[bytes]) -> None:
    _, point, application = parts
    Ed25519PublicKey.from_public_bytes(point)
    _check_application(application)


def _ecdsa_of_a_token(_text: str, parts: Sequence[bytes]) -> None:
    _, curve, point, application = parts
    if curve != b"nistp256" or point[:1] != b"\x04":
        raise ValueError("another curve, or a compressed point")
    EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
    _check_application(application)


def _check_application(application: bytes) -> None:
    """What a security key signs for besides: `ssh:`, or a name of the owner's."""
    if not application or not application.decode("ascii").isprintable():
        raise ValueError("no application")


def _refusal(words: str, *, code: str = "invalid_value") -> Invalid:
    return Invalid([FieldProblem("/text", code, words)])


_CHECKS: Mapping[str, Callable[[str, Sequence[bytes]], None]] = {
    "ssh-ed25519": _plain,
    "ecdsa-sha2-nistp256": _plain,
    "ecdsa-sha2-nistp384": _plain,
    "ecdsa-sha2-nistp521": _plain,
    "ssh-rsa": _plain,
    "sk-ssh-ed25519@openssh.com": _ed25519_of_a_token,
    "sk-ecdsa-sha2-nistp256@openssh.com": _ecdsa_of_a_token,
}
TYPES = tuple(_CHECKS)
"""Every type that is taken."""
