"""Connections to clusters: tried once more when they were closed, and those that were registered over the
network judged by where they really lead.

A name may lead elsewhere now than when it was registered, so the address is judged once the connection
stands, before anything is said on it.
"""

import socket
from ipaddress import ip_address
from typing import Any, Self

from django.conf import settings
from urllib3 import HTTPSConnectionPool, PoolManager, ProxyManager, Retry
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import NewConnectionError, ReadTimeoutError

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


class GuardedConnection(HTTPSConnection):
    """Closed again where it leads to this machine, its link or a metadata service."""

    def _new_conn(self) -> socket.socket:
        found = super()._new_conn()
        peer = ip_address(found.getpeername()[0])
        problem = address_problem(peer, settings.CONFIG.development_clusters, host=self.host)
        if problem:
            found.close()
            raise NewConnectionError(self, f"The server {problem}, where no cluster may be.")
        return found


class GuardedPool(HTTPSConnectionPool):
    """Makes no other connections."""

    ConnectionCls = GuardedConnection


def keep_out(pool: PoolManager) -> None:
    """From now on this pool connects over https alone, and guarded.

    Behind a proxy of the operator's own (HTTPS_PROXY) the proxy decides where a connection leads.
    """
    if not isinstance(pool, ProxyManager):
        pool.pool_classes_by_scheme = {"https": GuardedPool}
