"""Connections to clusters: tried once more when they were closed, and those that were registered over the
network judged by where they really lead.

A name may lead elsewhere now than when it was registered, so the address is judged once the connection
stands, before anything is said on it.
"""

import asyncio
import socket
import ssl
from ipaddress import ip_address
from typing import Any, Self

import httpcore
import httpx
from django.conf import settings
from urllib3 import HTTPSConnectionPool, PoolManager, Retry
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import NewConnectionError, ReadTimeoutError
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

from apps import tls
from apps.cluster.gateway.addresses import address_problem


class OnceMore(Retry):
    """Opens a connection again that the server had closed meanwhile; one that is silent is not asked twice.

    So a call ends within its read limit, and a worker on a hung server comes back before its lease is over.
    """

    def increment(self, *args: Any, **how: Any) -> Self:
        """See urllib3: raises what is not to be tried again."""
        error = how.get("error")
        if isinstance(error, ReadTimeoutError):
            raise error
        return super().increment(*args, **how)


class Astray(OSError):
    """A connection leads where no cluster may be; the message says where."""


def judge(host: str, peer: str) -> None:
    """Raises Astray where the host's connection leads to this machine, its link or a metadata service."""
    problem = address_problem(ip_address(peer), settings.CONFIG.development_clusters, host=host)
    if problem:
        raise Astray(f"The server {problem}, where no cluster may be.")


class Connection(HTTPSConnection):
    """Checks certificates as `apps.tls` says, by the files that are there as it connects."""

    def connect(self) -> None:
        """See urllib3, which makes such a context itself where none is given."""
        given = self.ssl_context
        if given is None:
            made = create_urllib3_context(cert_reqs=resolve_cert_reqs(self.cert_reqs))
            self.ssl_context = tls.without_forms(made)
            if not (self.ca_certs or self.ca_cert_data):
                self.ssl_context.load_default_certs()
        try:
            super().connect()
        finally:
            self.ssl_context = given


class GuardedConnection(Connection):
    """Closed again where it leads astray."""

    def _new_conn(self) -> socket.socket:
        found = super()._new_conn()
        try:
            judge(self.host, found.getpeername()[0])
        except Astray as error:
            found.close()
            raise NewConnectionError(self, str(error)) from error
        return found


class Pool(HTTPSConnectionPool):
    """Makes no other connections."""

    ConnectionCls = Connection


class GuardedPool(HTTPSConnectionPool):
    """Makes no other connections."""

    ConnectionCls = GuardedConnection


def settle(pool: PoolManager, *, is_guarded: bool) -> None:
    """From now on this pool makes our connections over https; a guarded one makes no others."""
    ways = {} if is_guarded else pool.pool_classes_by_scheme
    pool.pool_classes_by_scheme = {**ways, "https": GuardedPool if is_guarded else Pool}


class _GuardedNetwork(httpcore.AnyIOBackend):
    """Closes again what leads astray."""

    async def connect_tcp(self, host: str, port: int, *rest: Any, **how: Any) -> httpcore.AsyncNetworkStream:
        """See httpcore."""
        found = await super().connect_tcp(host, port, *rest, **how)
        try:
            judge(host, found.get_extra_info("server_addr")[0])
        except Astray as error:
            await found.aclose()
            raise httpcore.ConnectError(str(error)) from error
        return found


class GuardedTransport(httpx.AsyncHTTPTransport):
    """Of httpx on the event loop: makes no other connections."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        super().__init__(verify=trust, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(ssl_context=trust, network_backend=_GuardedNetwork())


async def reached(host: str, port: int) -> socket.socket:
    """A connection on the event loop to the first of the host's addresses that takes it; raises OSError."""
    loop = asyncio.get_running_loop()
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        judge(host, str(address[0]))
        found = socket.socket(family, kind, protocol)
        try:
            found.setblocking(False)
            await loop.sock_connect(found, address)
        except OSError as error:
            found.close()
            failure = error
        except BaseException:
            found.close()
            raise
        else:
            return found
    raise failure
