"""A device that keeps one passkey, as WebAuthn has it: it answers what a page asks, also wrongly."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from html import unescape
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

FLAG = AuthenticatorData.FLAG


def asked_by(page: str) -> dict[str, Any]:
    """What a page asks of a passkey."""
    found = page.partition('data-asked="')[2].partition('"')[0]
    read: dict[str, Any] = json.loads(unescape(found))
    return read


@dataclass
class Device:
    """`verifies`: whether it asks its owner for finger, face or PIN."""

    origin: str
    verifies: bool = True
    uses: int = 0
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    host: str = ""

    @property
    def id(self) -> bytes:
        """The credential's."""
        return sha256(str(self.key.private_numbers().private_value).encode()).digest()

    def make(self, asked: dict[str, Any]) -> str:
        """A new passkey."""
        public = ES256.from_cryptography_key(self.key.public_key())  # type: ignore[no-untyped-call]
        made = AttestedCredentialData.create(bytes(16), self.id, public)
        said = CollectedClientData.create("webauthn.create", asked["challenge"], self.origin)
        told = AttestationObject.create("none", self._data(made, is_new=True), {})
        return self._answer({"clientDataJSON": said, "attestationObject": told})

    def sign(self, asked: dict[str, Any]) -> str:
        """What it was asked."""
        said = CollectedClientData.create("webauthn.get", asked["challenge"], self.origin)
        told = self._data()
        signature = self.key.sign(told + said.hash, ec.ECDSA(SHA256()))
        return self._answer({"clientDataJSON": said, "authenticatorData": told, "signature": signature})

    def _data(self, made: bytes = b"", *, is_new: bool = False) -> AuthenticatorData:
        host = self.host or self.origin.partition("://")[2].partition(":")[0]
        flags = FLAG.UP | (FLAG.AT if is_new else FLAG(0)) | (FLAG.UV if self.verifies else FLAG(0))
        return AuthenticatorData.create(  # type: ignore[no-any-return]
            sha256(host.encode()).digest(), flags, self.uses, made
        )

    def _answer(self, parts: dict[str, bytes]) -> str:
        response = {name: websafe_encode(part) for name, part in parts.items()}
        me = websafe_encode(self.id)
        told = {"id": me, "rawId": me, "type": "public-key", "response": response}
        return json.dumps({**told, "clientExtensionResults": {}})
