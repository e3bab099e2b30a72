"""A gateway that opens with a client's certificate held in memory: to the API of a tenant's virtual cluster.

The key is nowhere on a disk, in no log and in no error text: Python's TLS reads certificates from files
alone, so they pass through a file that lies in memory and has no name (Linux).
"""

import os
import ssl

import urllib3

from apps import tls
from apps.cluster.errors import Unreachable
from apps.cluster.gateway.client import KubernetesGateway
from apps.cluster.gateway.connecting import settle
from apps.cluster.objects.names import MANAGER
from apps.cluster.specs import ClientKey, Endpoint

_CONNECTIONS = 8


class KeyedGateway(KubernetesGateway):
    """A `Gateway` over HTTPS with a client's certificate; lives as long as the call that needed it."""

    def __init__(self, key: ClientKey) -> None:
        self._endpoint = Endpoint(key.server, key.authority, key.certificate)
        self._quiet_until = 0.0
        # A server that is silent is not asked twice: a worker comes back before its lease is over.
        once = urllib3.Retry(1, read=False, redirect=False, respect_retry_after_header=False)
        self._pool = urllib3.PoolManager(ssl_context=_context(key), maxsize=_CONNECTIONS, retries=once)
        # Where it answers, `api_host`, came over REST.
        settle(self._pool, is_guarded=True)

    @property
    def address(self) -> str:
        """Where the API server is."""
        return self._endpoint.server

    def endpoint(self) -> Endpoint:
        """See `Gateway.endpoint`."""
        return self._endpoint

    def _headers(self, kind: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": MANAGER}
        return headers | {"Content-Type": kind} if kind else headers


def _context(key: ClientKey) -> ssl.SSLContext:
    place = os.memfd_create("client-certificate")
    try:
        with os.fdopen(os.dup(place), "wb") as written:
            written.write(key.certificate + b"\n" + key.private_key)
        context = tls.trusting(key.authority.decode())
        context.load_cert_chain(f"/proc/self/fd/{place}")
    except (ssl.SSLError, ValueError):
        # Without the cause: what it says of the key belongs in no log.
        raise Unreachable("The key of the API server cannot be used.", reason="KeyUnusable") from None
    else:
        return context
    finally:
        os.close(place)
