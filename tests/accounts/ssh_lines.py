"""Lines of .pub files, made anew: no private half of any is kept."""

import base64
import hashlib
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from apps.accounts.models import SshKey, User
from apps.accounts.ssh_keys.public_keys import read

ED25519 = "ssh-ed25519"
CURVES = {"256": ec.SECP256R1(), "384": ec.SECP384R1(), "521": ec.SECP521R1()}


def line(owner: str, comment: str = "") -> str:
    """The same line for the same owner. Its bytes are a digest: nobody has a private half."""
    return f"{written(ED25519, hashlib.sha256(owner.encode()).digest())} {comment}".strip()


def fingerprint(owner: str) -> str:
    """Of that line."""
    return read(line(owner)).fingerprint


def kept(user: User, now: datetime) -> SshKey:
    """A key of this person's, named after them."""
    text, mark = line(user.username), fingerprint(user.username)
    return SshKey.objects.create(user=user, name="laptop", text=text, fingerprint=mark, created_at=now)


def id_of(user: User) -> str:
    """Of the only key of this person."""
    return str(SshKey.objects.get(user=user).pk)


def written(kind: str, *parts: bytes) -> str:
    """Type and base64 of a key that consists of the type and these parts."""
    wire = b"".join(len(part).to_bytes(4, "big") + part for part in (kind.encode(), *parts))
    return f"{kind} {base64.b64encode(wire).decode()}"


def number(value: int) -> bytes:
    """A positive number as a key has it (RFC 4251, section 5)."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def ecdsa(bits: str = "256") -> str:
    return _openssh(ec.generate_private_key(CURVES[bits]).public_key())


def rsa_of(bits: int) -> str:
    return _openssh(rsa.generate_private_key(65537, bits).public_key())


def of_a_security_key(kind: str) -> str:
    """As `ssh-keygen -t ed25519-sk` and `-t ecdsa-sk` write them."""
    if kind.startswith("sk-ssh-ed25519"):
        return written(kind, hashlib.sha256(b"security key").digest(), b"ssh:")
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    point = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return written(kind, b"nistp256", point, b"ssh:")


def private(form: PrivateFormat) -> str:
    """A private key as a file has it."""
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()


def _openssh(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
