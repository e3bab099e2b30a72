"""The sandbox's own certificate authority and serving certificate: kubectl sends bearer tokens over TLS only.

Kept in the state folder.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUTHORITY, CERTIFICATE, KEY = "ca.crt", "server.crt", "server.key"
_LIFETIME = timedelta(days=3650)
_RENEW_BEFORE = timedelta(days=30)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
    )


def _addresses(host: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    for text in dict.fromkeys(("127.0.0.1", "::1", host)):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(text)))
        except ValueError:
            names.append(x509.DNSName(text))
    return names


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _fresh(folder: Path, host: str) -> bool:
    """Whether the kept certificate is whole, not about to expire, and names the host."""
    if not all((folder / name).exists() for name in (AUTHORITY, CERTIFICATE, KEY)):
        return False
    kept = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    names = kept.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return kept.not_valid_after_utc > datetime.now(UTC) + _RENEW_BEFORE and all(
        name in list(names) for name in _addresses(host)
    )


def ensure(folder: Path, host: str) -> Path:
    """Make (or keep) the authority and the serving certificate for a host; the folder that holds them."""
    if _fresh(folder, host):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("sandbox authority")
    root = (
        _builder(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority, hashes.SHA256())
    )
    leaf = (
        _builder(_name("sandbox"), issuer, key.public_key())
        .add_extension(x509.SubjectAlternativeName(_addresses(host)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .sign(authority, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(folder / AUTHORITY, root.public_bytes(serialization.Encoding.PEM), 0o644)
    _write(folder / CERTIFICATE, leaf.public_bytes(serialization.Encoding.PEM), 0o644)
    _write(folder / KEY, private, 0o600)
    return folder


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
