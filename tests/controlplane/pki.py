"""Certificates, tokens and kubeconfigs of a plane.

One authority and one set of serving certificates per machine, kept in the cache: Kueue reads its own from two
fixed folders that every plane on the machine shares. Service account keys and tokens belong to one plane
alone, so a token of one plane is refused by the other. For tests on loopback only.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import secrets
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.controlplane import binaries

# Where Kueue's metrics and visibility servers look; the paths are compiled in.
KUEUE_FOLDERS = (Path("/etc/kueue/metrics/certs"), Path("/visibility"))
_SERVING_NAMES = ("localhost", "kubernetes", "kubernetes.default.svc")
_SERVING_ADDRESSES = ("127.0.0.1", "10.96.0.1")
_VALIDITY = dt.timedelta(days=3650)


class PkiError(RuntimeError):
    """Certificates could not be put where a component reads them."""


@dataclass(frozen=True)
class MachinePki:
    """The certificate files that all planes of this machine share."""

    folder: Path

    def cert(self, name: str) -> Path:
        """Certificate of `ca`, `serving`, `front-proxy` or `kueue/tls`."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Private key of the same."""
        return self.folder / f"{name}.key"


def machine_pki() -> MachinePki:
    """The machine's certificates, made on first use under a lock."""
    folder = binaries.cache_root() / "pki"
    with binaries.exclusive(binaries.cache_root() / "pki.lock"):
        if not (folder / "complete").exists():
            _create(folder)
    return MachinePki(folder)


def own_pki(folder: Path) -> MachinePki:
    """Certificates of an authority that nothing else on the machine trusts."""
    _create(folder)
    return MachinePki(folder)


def administrator(pki: MachinePki) -> tuple[bytes, bytes]:
    """A client's certificate of the group system:masters, and its private key, as PEM."""
    return client(pki, "administrator", "system:masters")


def client(pki: MachinePki, user: str, group: str, *, lasts: dt.timedelta = _VALIDITY) -> tuple[bytes, bytes]:
    """A client's certificate that makes it this user of this group, and its private key, as PEM; good from
    an hour ago.
    """
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)
    ]  # fmt: skip
    return _signed(pki, x509.Name(names), [usage], lasts)


def server(
    pki: MachinePki, name: str, address: str, *, lasts: dt.timedelta = _VALIDITY, names_authority: bool = True
) -> tuple[bytes, bytes]:
    """A certificate for what serves at `address`, and its private key, as PEM; good from an hour ago. Python
    3.13 refuses by itself one that does not name its authority's key.
    """
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    reached = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address(address))]
    more = [usage, x509.SubjectAlternativeName(reached)]
    return _signed(pki, _name(name), more, lasts, names_authority=names_authority)


def _signed(
    pki: MachinePki, subject: x509.Name, extensions: Sequence[x509.ExtensionType], lasts: dt.timedelta,
    *, names_authority: bool = True,
) -> tuple[bytes, bytes]:  # fmt: skip
    authority = x509.load_pem_x509_certificate(pki.cert("ca").read_bytes())
    signer = serialization.load_pem_private_key(pki.key("ca").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, authority.subject, key, lasts)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    for extension in (*extensions, *([signed_by] if names_authority else [])):
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def publish_for_kueue(pki: MachinePki) -> None:
    """Puts Kueue's certificate into its two fixed folders; says which permission is missing if it cannot."""
    for folder in KUEUE_FOLDERS:
        for name in ("tls.crt", "tls.key"):
            source, target = pki.folder / "kueue" / name, folder / name
            try:
                if target.exists() and target.read_bytes() == source.read_bytes():
                    continue
                folder.mkdir(parents=True, exist_ok=True)
                write_private(target, source.read_bytes())
            except OSError as error:
                command = f"install -d -o {os.getuid()} {' '.join(str(each) for each in KUEUE_FOLDERS)}"
                raise PkiError(
                    f"Kueue reads its certificate from {folder}, which this user cannot write ({error}). "
                    f"Once, as root: {command}"
                ) from error


def write_service_account_key(path: Path) -> None:
    """A new signing key, so that tokens of another plane are not accepted here."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(path, _pem(key))
    write_private(
        path.with_suffix(".pub"),
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )


def write_tokens(path: Path, identities: dict[str, tuple[str, str]]) -> dict[str, str]:
    """One random token per identity (name -> user, group), in the API server's file format."""
    tokens = {name: secrets.token_urlsafe(24) for name in identities}
    lines = [f'{tokens[name]},{user},{name},"{group}"' for name, (user, group) in identities.items()]
    write_private(path, "\n".join([*lines, ""]).encode())
    return tokens


def write_kubeconfig(path: Path, server: str, token: str, authority: Path) -> None:
    """The kubeconfig of whoever has this token."""
    document = kubeconfig(server, {"token": token}, authority)
    # JSON is YAML: no second dialect to quote for.
    write_private(path, json.dumps(document, indent=2).encode())


def kubeconfig(server: str, user: Mapping[str, str], authority: Path, **cluster: str) -> dict[str, Any]:
    """A kubeconfig that holds its data inline: nothing in it names a file or runs a command."""
    reached = {
        "server": server,
        "certificate-authority-data": b64encode(authority.read_bytes()).decode(),
        **cluster,
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "plane",
        "clusters": [{"name": "plane", "cluster": reached}],
        "users": [{"name": "plane", "user": dict(user)}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "plane"}}],
    }


def write_private(path: Path, content: bytes) -> None:
    """Renamed into place, for its owner alone: who reloads a certificate never reads half a file."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.touch(mode=0o600)
    part.write_bytes(content)
    part.replace(path)


def _create(folder: Path) -> None:
    (folder / "kueue").mkdir(parents=True, exist_ok=True, mode=0o700)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    _store(folder, "ca", authority, authority_key)
    for file, common_name, usage in (
        ("serving", "kube-apiserver", ExtendedKeyUsageOID.SERVER_AUTH),
        ("front-proxy", "front-proxy-client", ExtendedKeyUsageOID.CLIENT_AUTH),
        ("kueue/tls", "kueue", ExtendedKeyUsageOID.SERVER_AUTH),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        _store(folder, file, _leaf(common_name, usage, key, (authority, authority_key)), key)
    (folder / "complete").touch()


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("allotment-test-authority")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    common_name: str,
    usage: x509.ObjectIdentifier,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey],
) -> x509.Certificate:
    authority, authority_key = issuer
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVING_NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in _SERVING_ADDRESSES]
    return (
        _builder(_name(common_name), authority.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    lasts: dt.timedelta = _VALIDITY,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + lasts)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _store(folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_private(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    write_private(folder / f"{name}.key", _pem(key))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        # SEC1, because the API server's service account loader knows the "EC PRIVATE KEY" header.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
