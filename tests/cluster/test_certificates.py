"""Certificates that have ended, or are of somebody else, are told as such. Real TLS servers show them."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client.parser import text_string_to_metric_families

from apps.accounts.oidc import wire
from apps.cluster.errors import Unreachable
from apps.cluster.gateway import certificates, client, following
from apps.cluster.gateway.client_cert_gateway import KeyedGateway
from apps.cluster.models import Cluster
from apps.cluster.specs import ClientKey
from apps.metering.telemetry.rules.sources.web import Access, Web
from portal.config import Config
from portal.operate import certificates as checks
from portal.operate import exposition
from portal.operate.findings import OK, WRONG
from tests.controlplane import pki

CERTIFICATE_DUE = "allotment_cluster_certificate_due_timestamp_seconds"
LONG, OVER = timedelta(days=90), timedelta(minutes=-10)
NOW = datetime(2026, 11, 29, tzinfo=UTC)


class Handler(BaseHTTPRequestHandler):
    """Answers with `code`; keeps from which port each request came."""

    protocol_version = "HTTP/1.1"
    code = 200
    ports: list[int]

    def do_GET(self) -> None:
        self.ports.append(self.client_address[1])
        self.send_response(self.code)
        self.send_header("Content-Length", "25")
        self.end_headers()
        self.wfile.write(b'{"gitVersion": "v1.36.3"}')

    def log_message(self, *args: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    """Over TLS, each handshake in the thread of its connection."""

    daemon_threads = True
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, *_: Any) -> None:
        """A client that leaves is what these tests are about."""


@dataclass
class Way:
    """Two authorities, and how a server of one is made and reached."""

    folder: Path
    own: pki.MachinePki
    other: pki.MachinePki

    @contextmanager
    def server(
        self, *, lasts: timedelta = LONG, address: str = "127.0.0.1", asks: bool = False, **how: bool
    ) -> Iterator[int]:
        """Its port. `asks`: it looks at the client's certificate during the handshake."""
        certificate, key = pki.server(self.own, "north", address, lasts=lasts, **how)
        place = self.folder / "served.pem"
        place.write_bytes(certificate + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.own.cert("ca"))
        context.load_cert_chain(place)
        context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
        with Server(("127.0.0.1", 0), Handler) as running:
            running.context = context
            threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
            yield running.server_address[1]
            running.shutdown()

    def kubeconfig(
        self, port: int, *, lasts: timedelta | None = None, authority: pki.MachinePki | None = None
    ) -> str:
        """By a token, or by a client's certificate in a file that is good for so long."""
        user = {"token": "t"}
        if lasts is not None:
            user = {
                "client-certificate": str(self.certificate(lasts)),
                "client-key": str(self.folder / "key"),
            }
        document = pki.kubeconfig(f"https://127.0.0.1:{port}", user, (authority or self.own).cert("ca"))
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return str(path)

    def certificate(self, lasts: timedelta) -> Path:
        """Written anew."""
        certificate, key = pki.client(self.own, "allotment", "operators", lasts=lasts)
        (self.folder / "certificate").write_bytes(certificate)
        (self.folder / "key").write_bytes(key)
        return self.folder / "certificate"


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[pki.MachinePki, pki.MachinePki]:
    own, other = (pki.own_pki(tmp_path_factory.mktemp(name)) for name in ("own", "other"))
    return own, other


@pytest.fixture
def way(authorities: tuple[pki.MachinePki, pki.MachinePki], tmp_path: Path) -> Way:
    Handler.code, Handler.ports = 200, []
    return Way(tmp_path, *authorities)


def refusal(path: str) -> tuple[str, str]:
    with pytest.raises(Unreachable) as raised:
        client.for_kubeconfig(path).server_version()
    return raised.value.reason, raised.value.detail


@pytest.mark.parametrize(
    ("served", "other", "words"),
    [
        ({"lasts": OVER}, False, "or of the authority that signed it, has expired."),
        ({"address": "127.0.0.9"}, False, "is for another address than the one it is reached by."),
        ({}, True, "shows a certificate of an authority that its kubeconfig does not name."),
    ],
)
def test_which_check_of_the_server_failed_is_said(
    way: Way, served: dict[str, Any], words: str, *, other: bool
) -> None:
    with way.server(**served) as port:
        path = way.kubeconfig(port, authority=way.other if other else None)
        reason, said = refusal(path)
    assert reason == "ClusterUnavailable"
    assert said.startswith("The cluster does not answer: ")
    assert said.endswith(words)
    assert "127.0.0.1" not in said


def test_a_certificate_that_kubectl_accepts_is_accepted(way: Way, settings: Any) -> None:
    """RULE: by calls, streams, a client's key, telemetry and sign-in alike. Python 3.13 and later refuse by
    themselves one that does not name its authority's key, as those of Amazon EKS and MicroK8s do not.
    """
    settings.CONFIG = settings.CONFIG.model_copy(update={"cluster_addresses": "127.0.0.0/8"})
    authority = way.own.cert("ca").read_bytes()
    certificate, key = pki.client(way.own, "allotment", "operators")
    with way.server(names_authority=False) as port:
        url = f"https://127.0.0.1:{port}"
        path = way.kubeconfig(port)
        asked = client.for_kubeconfig(path)
        known = asked._api.configuration
        registered = client.for_text(Path(path).read_text())
        keyed = KeyedGateway(ClientKey(url, authority, certificate, key))
        assert {each.server_version() for each in (asked, registered, keyed)} == {"v1.36.3"}
        assert httpx.get(f"{url}/version", verify=following.trust_of(known)).status_code == 200
        assert Web(Access(authority.decode())).get(url)
        assert wire._client(str(way.own.cert("ca"))).get(url).status_code == 200


def test_a_client_certificate_that_the_handshake_refuses_has_expired(way: Way) -> None:
    with way.server(asks=True) as port:
        said = refusal(way.kubeconfig(port, lasts=OVER))[1]
    assert said == "The cluster does not answer: the client certificate in its kubeconfig has expired."


def test_a_client_certificate_that_ended_is_named_and_its_file_read_anew(way: Way) -> None:
    """RULE: a connection keeps the certificate that it began with, so a refused one is given up."""
    with way.server() as port:
        path = way.kubeconfig(port, lasts=OVER)
        ended = certificates.validity((way.folder / "certificate").read_bytes())
        assert ended is not None
        Handler.code = 401
        ends = f"the client certificate in its kubeconfig expired on {ended[1]:%Y-%m-%d %H:%M} UTC."
        assert refusal(path) == ("Unauthorized", f"The cluster refuses our credentials: {ends}")
        way.certificate(LONG)
        assert "expired" not in refusal(path)[1]
        Handler.code = 200
        asked = client.for_kubeconfig(path)
        assert {asked.server_version() for _ in range(2)} == {"v1.36.3"}
    first, second, *rest = Handler.ports
    assert first != second
    assert len({*rest}) == 1
    assert second not in rest


def test_streams_take_the_certificate_that_its_file_holds_now(way: Way) -> None:
    with way.server() as port:
        asked = client.for_kubeconfig(way.kubeconfig(port, lasts=OVER))
        known = asked._api.configuration
        before = following.trust_of(known)
        assert following.trust_of(known) is before
        way.certificate(LONG)
        assert following.trust_of(known) is not before


@pytest.mark.django_db
def test_the_doctor_asks_each_server_for_its_own(way: Way, settings: Any) -> None:
    with way.server(lasts=OVER) as port:
        path = way.kubeconfig(port, lasts=LONG)
        Cluster.objects.create(slug="north", name="North", kubeconfig_path=path)
        config: Config = settings.CONFIG.model_copy(
            update={"public_url": f"https://localhost:{port}", "apps_url": ""}
        )
        found = {each.name: each for each in checks.check(config, datetime.now(UTC), whole=True)}
        of_health = [each.name for each in checks.check(config, datetime.now(UTC), whole=False)]
        own = certificates.validity((way.folder / "certificate").read_bytes())
        exposed = exposition.text(datetime.now(UTC)).decode()
    assert {name: each.state for name, each in found.items()} == {
        "client certificate of north": OK,
        "certificate of north": WRONG,
        "certificate of the portal": WRONG,
    }
    assert "expired on " in found["certificate of north"].line
    assert "kubeadm certs renew" in found["certificate of north"].line
    assert of_health == ["client certificate of north"], "no server is asked for a page"
    assert own
    (due,) = (
        each.samples for each in text_string_to_metric_families(exposed) if each.name == CERTIFICATE_DUE
    )
    assert [(each.labels["cluster"], each.value) for each in due] == [
        ("north", (own[1] - timedelta(days=14)).timestamp())
    ]


def dated(begins: timedelta, ends: timedelta) -> bytes:
    """A certificate that began and ends so long from `NOW`."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(NOW + begins).not_valid_after(NOW + ends)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [
        (-360, 15, "good until "),
        (-360, 13, "expires on 2026-12-12 00:00 UTC, in 13.0 days"),
        (-60, 11, "expires on 2026-12-10 00:00 UTC, in 11.0 days"),
        (-0.5, 0.5, "good until "),
        (-0.9, 0.1, "expires on 2026-11-29 02:24 UTC, in 0.1 days"),
        (-30, -1, "expired on 2026-11-28 00:00 UTC"),
        (1, 30, "not valid before 2026-11-30 00:00 UTC"),
    ],
)
def test_it_is_wrong_from_14_days_before_its_end_or_a_sixth_of_its_life(
    begins: float, ends: float, words: str
) -> None:
    pem = dated(timedelta(days=begins), timedelta(days=ends))
    found = checks.judged("certificate of north", pem, "Renew it", NOW)
    assert found.seen.startswith(words)
    assert found.state == (OK if words == "good until " else WRONG)
