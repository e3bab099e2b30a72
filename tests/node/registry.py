"""A registry: the reading half of the OCI distribution API over the files of `images.store`.

`python -m tests.node.registry --store DIR --address A --port P --account USER:PASSWORD`. What is under
`private/` wants that account by HTTP Basic, as a pull secret carries it.
"""

from __future__ import annotations

import argparse
import hmac
import re
import shutil
from base64 import b64encode
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.node.images.store import MANIFEST, Store

PORT = 5000
PRIVATE = "private/"
_ROUTE = re.compile(r"/v2/(?P<repository>[a-z0-9./_-]+)/(?P<kind>manifests|blobs)/(?P<name>[\w:.-]+)")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Registry(ThreadingHTTPServer):
    """Serves a store; `account` is USER:PASSWORD of what is private."""

    def __init__(self, store: Store, address: tuple[str, int], account: str) -> None:
        super().__init__(address, _Handler)
        self.store = store
        self.expected = f"Basic {b64encode(account.encode()).decode()}"


class _Handler(BaseHTTPRequestHandler):
    """One request; its log line says what was pulled."""

    protocol_version = "HTTP/1.1"
    server: Registry

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        route = _ROUTE.fullmatch(path)
        if route and route["repository"].startswith(PRIVATE) and not self._is_known():
            self._end(HTTPStatus.UNAUTHORIZED)
            return
        digest = found(self.server.store, **route.groupdict()) if route else None
        if route and digest:
            self._send(self.server.store.blob(digest), digest, route["kind"], with_body=with_body)
            return
        self._end(HTTPStatus.OK if path == "/v2/" else HTTPStatus.NOT_FOUND)

    def _is_known(self) -> bool:
        return hmac.compare_digest(self.headers.get("Authorization", ""), self.server.expected)

    def _end(self, status: HTTPStatus) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, file: Path, digest: str, kind: str, *, with_body: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", MANIFEST if kind == "manifests" else "application/octet-stream")
        self.send_header("Content-Length", str(file.stat().st_size))
        self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if with_body:
            with file.open("rb") as opened:
                shutil.copyfileobj(opened, self.wfile, 1 << 20)


def found(store: Store, repository: str, kind: str, name: str) -> str | None:
    """The digest of what a route names, if it is there."""
    if _DIGEST.fullmatch(name):
        return name if store.blob(name).is_file() else None
    tagged = store.manifest(repository, name)
    if kind == "blobs" or ".." in repository or not tagged.is_file():
        return None
    return tagged.read_text()


def main() -> None:
    """Serves until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.node.registry", description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--account", required=True, help="USER:PASSWORD of what is private")
    options = parser.parse_args()
    Registry(Store(options.store), (options.address, options.port), options.account).serve_forever()


if __name__ == "__main__":
    main()
