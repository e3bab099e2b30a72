"""Until when the certificates on the way to a server are good, and what a failed check of one means.

Pure, but for what reads files (`endpoint_of`, `own_of`), asks a server (`served`) or the clock. Source:
RFC 5280, 4.1.2.5; OpenSSL's x509_vfy.h.
"""

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from apps.cluster.specs import Endpoint

_STRANGER = "its API server shows a certificate of an authority that its kubeconfig does not name"
_FAILED_CHECKS = {
    **dict.fromkeys((7, 18, 19, 20, 21), _STRANGER),
    9: "the certificate of its API server is not valid yet: see the clocks of both machines",
    10: "the certificate of its API server, or of the authority that signed it, has expired",
    62: "the certificate of its API server is for another name than the one it is reached by",
    64: "the certificate of its API server is for another address than the one it is reached by",
}
"""By X509_V_ERR_*, as Python's `verify_code`."""
_HUNG_UP = (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)
_ALERT = "ALERT_CERTIFICATE_EXPIRED"
"""How OpenSSL ends the name of the alert by which a server refuses our own."""


def failed_check(error: BaseException, own: bytes = b"") -> str:
    """What a failed check of a certificate means, without address or name; empty for any other error.

    urllib3 raises a copy of its own and keeps what Python raised as its argument. A server that refuses our
    `own` (PEM) may have hung up before its reason was read: then the dates say it.
    """
    for cause in (error, *error.args):
        if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in _FAILED_CHECKS:
            return _FAILED_CHECKS[cause.verify_code]
        is_told = isinstance(cause, ssl.SSLError) and str(cause.reason).endswith(_ALERT)
        if is_told or (isinstance(cause, _HUNG_UP) and refused(own, datetime.now(UTC))):
            return "the client certificate in its kubeconfig has expired"
    return ""


def validity(pem: bytes) -> tuple[datetime, datetime] | None:
    """From when until when the first certificate is good (UTC); None where there is none to read."""
    try:
        first = x509.load_pem_x509_certificates(pem)[0]
    except ValueError:
        return None
    return first.not_valid_before_utc, first.not_valid_after_utc


def refused(pem: bytes, now: datetime) -> str:
    """Why a server takes this client's certificate for nobody's, where the time is the cause; else empty."""
    known = validity(pem)
    if known is None or known[0] <= now <= known[1]:
        return ""
    ends = f"expired on {_words(known[1])}" if now > known[1] else f"is not valid before {_words(known[0])}"
    return f"The cluster refuses our credentials: the client certificate in its kubeconfig {ends}."


def own_of(gateway: Any) -> bytes:
    """The certificate by which a gateway's server knows us, as PEM; empty where there is none to read."""
    try:
        own: bytes = gateway.endpoint().certificate
    except OSError:
        return b""
    return own


def endpoint_of(known: Any) -> Endpoint:
    """What the Kubernetes library's configuration says of the way to an API server."""
    authority, own = (
        Path(name).read_bytes() if name else b"" for name in (known.ssl_ca_cert, known.cert_file)
    )
    return Endpoint(str(known.host), authority, own)


def served(host: str, port: int, seconds: float, judge: Callable[[str, str], None] | None = None) -> bytes:
    """The certificate by which a server is known there, as PEM, whoever signed it and until whenever it is
    good. Nothing is sent. Raises OSError; `judge` raises one for an address where no server may be.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), seconds) as plain:
        if judge:
            judge(host, plain.getpeername()[0])
        with context.wrap_socket(plain, server_hostname=host) as secured:
            return ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"").encode()


def _words(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
