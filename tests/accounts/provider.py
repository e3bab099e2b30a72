"""A provider that the test serves itself, over HTTP, and that lies on demand."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings as django_settings
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

CLIENT, SECRET = "allotment", "a secret of the test"
OWN, STRANGE = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
Claims = dict[str, Any]


@dataclass
class FakeProvider:
    """What it says. `lies` replaces claims (None removes one); `codes` are those that it still takes."""

    issuer: str = ""
    lies: Claims = field(default_factory=dict)
    algorithm: str = "RS256"
    key: Any = OWN
    described: Claims = field(default_factory=dict)
    asked: list[Claims] = field(default_factory=list)
    codes: dict[str, Claims] = field(default_factory=dict)
    takes_codes_again: bool = False
    info: Claims = field(default_factory=dict)
    said: Claims = field(default_factory=dict)

    def settings(self, slug: str = "acme") -> Claims:
        return {
            "slug": slug,
            "name": slug.title(),
            "issuer": self.issuer,
            "client_id": CLIENT,
            "client_secret": SECRET,
        }

    def answer(self, path: str, sent: Mapping[str, str]) -> tuple[int, Claims]:
        if path == "/.well-known/openid-configuration":
            return 200, self._description()
        if path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OWN.public_key()))
            return 200, {"keys": [{**public, "kid": "own", "use": "sig"}]}
        if path == "/userinfo":
            return 200, self.info or {"sub": self.said.get("sub", "nobody")}
        return self._token(sent)

    def _description(self) -> Claims:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        addresses = {name: f"{self.issuer}/{step}" for name, step in ends.items()}
        return {
            "issuer": self.issuer,
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            **addresses,
        } | self.described

    def _token(self, sent: Mapping[str, str]) -> tuple[int, Claims]:
        kept = self.codes.get(sent.get("code", ""))
        if kept is None:
            return 400, {"error": "invalid_grant"}
        if not self.takes_codes_again:
            del self.codes[sent["code"]]
        digest = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest())
        if digest.rstrip(b"=").decode() != kept["challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": kept["nonce"]}
        claims = usual | kept["claims"] | self.lies
        said = {name: value for name, value in claims.items() if value is not None}
        self.said = said
        token = jwt.encode(said, self.key, algorithm=self.algorithm, headers={"kid": "own"})
        return 200, {"id_token": token, "access_token": "opaque", "token_type": "Bearer"}

    def sign_in(self, address: str, claims: Claims, code: str = "c-1") -> dict[str, str]:
        """What the browser brings back after the person signed in there."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.asked.append(asked)
        self.codes[code] = {
            "challenge": asked["code_challenge"],
            "nonce": asked["nonce"],
            "claims": {"sub": "s-1", **claims},
        }
        return {"state": asked["state"], "code": code}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._say({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._say({name: values[0] for name, values in parse_qs(body).items()})

    def _say(self, sent: Mapping[str, str]) -> None:
        provider = cast("FakeProvider", self.server.provider)  # type: ignore[attr-defined]
        status, said = provider.answer(urlsplit(self.path).path, sent)
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving() -> Iterator[FakeProvider]:
    """It answers while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    provider = FakeProvider(f"http://127.0.0.1:{server.server_address[1]}")
    server.provider = provider  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.02}).start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()


def begin(client: Client, slug: str = "acme", **query: str) -> str:
    """Press the button; the address to which the browser is sent."""
    answer = client.get(f"/sign-in/with/{slug}/", query)
    assert answer.status_code == 302, answer.content.decode()
    return str(answer["Location"])


def back(client: Client, brought: Mapping[str, str], slug: str = "acme") -> HttpResponse:
    """The browser comes back."""
    return cast("HttpResponse", client.get(f"/sign-in/with/{slug}/back/", brought))


def come(provider: FakeProvider, client: Client | None = None, **claims: Any) -> HttpResponse:
    """A whole sign-in of somebody with these claims."""
    browser = client or Client()
    return back(browser, provider.sign_in(begin(browser), claims))


def configured(settings: Settings, *providers: dict[str, Any], **more: Any) -> None:
    """These are the providers that the settings name."""
    changed = {"oidc": json.dumps(providers), **more}
    settings.CONFIG = django_settings.CONFIG.model_copy(update=changed)
