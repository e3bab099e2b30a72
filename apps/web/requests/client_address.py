"""The client's address of a request. Only this module reads X-Forwarded-For.

The web server is started without its own reading of such headers: it would believe anybody on this machine.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
ONE_SUBSCRIBER = 64
"""Bits of an IPv6 address that name one customer of a provider; the rest is the customer's own choice."""


def client_address(request: HttpRequest) -> Address | None:
    """The right-most hop that is no trusted proxy (`ALLOTMENT_TRUSTED_PROXIES`); None where nobody can tell.

    Everything left of it was written by that hop and proves nothing.
    """
    trusted = settings.CONFIG.proxies
    hop = parsed(request.META.get("REMOTE_ADDR", ""))
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
    for text in reversed(forwarded.split(",") if forwarded else []):
        if hop is None or not is_within(hop, trusted):
            break
        told = parsed(text)
        if told is None:
            # The proxy wrote no address: what stands further left is hearsay.
            break
        hop = told
    return hop


def client_network(request: HttpRequest) -> str:
    """What limits per address count: the address, or of IPv6 the network that belongs to one customer."""
    address = client_address(request)
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address), ONE_SUBSCRIBER), strict=False))
    return str(address or "unknown")


def parsed(text: str) -> Address | None:
    """An address as a proxy may write it: with spaces, a port or brackets; IPv4 within IPv6 is IPv4."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ip_address(bare)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def is_within(address: Address, networks: tuple[Network, ...]) -> bool:
    """Whether one of these networks holds it."""
    return any(address.version == each.version and address in each for each in networks)
