"""Connections to clusters that were registered over the network: each is judged by where it really leads.

A name may lead elsewhere now than when it was registered, so the address is judged once the connection
stands, before anything is said on it.
"""

import socket
from ipaddress import ip_address

from django.conf import settings
from urllib3 import HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import NewConnectionError

from apps.cluster.addresses import address_problem


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
