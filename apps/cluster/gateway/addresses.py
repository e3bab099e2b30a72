"""Where a cluster that was registered over the network may be. Pure but for the look-up of names.

Private networks are where clusters live. This machine, its link and the cloud's metadata services are not: an
address there would make the product ask, with its own reach, what the registrant cannot.
"""

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
METADATA = frozenset(
    ip_address(text)
    for text in (
        *(
            "169.254.169.254",
            "169.254.170.2",
            "fd00:ec2::254",
            "fd20:ce::254",
        ),  # AWS, Google, and many others
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),  # Alibaba, Azure, Oracle
    )
)
"""Where clouds hand out the machine's own credentials: refused whatever is allowed."""
_METADATA_NAMES = ("metadata", "metadata.google.internal", "metadata.goog", "instance-data")
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_SHARED = (ip_network("100.64.0.0/10"), ip_network("0.0.0.0/8"))
_TRANSLATED = ip_network("64:ff9b::/96")


def server_problem(server: object, allowed: Sequence[str]) -> str | None:
    """Why a cluster's `server` is refused, judged by its text only; None accepts it.

    `allowed`: hosts and networks that may be named though they are refused (`ALLOTMENT_CLUSTER_ADDRESSES`).
    """
    return form_problem(server) or host_problem(urlsplit(str(server)).hostname or "", allowed)


def form_problem(server: object) -> str | None:
    """Why a `server` is no address that a cluster could have, wherever it leads; None accepts it."""
    try:
        # Letters beyond ASCII: resolvers read full-width digits as digits. Such a name has an ASCII form.
        is_text = isinstance(server, str) and server.isascii() and server.isprintable()
        parts = urlsplit(str(server)) if is_text else None
        host = (parts.hostname or "") if parts else ""
        _ = parts and parts.port
    except ValueError:
        parts, host = None, ""
    if parts is None or not host or "\\" in parts.netloc or " " in parts.netloc:
        return "is not an address such as https://10.0.0.1:6443"
    if parts.scheme != "https":
        return "must begin with https://"
    if "@" in parts.netloc:
        return "holds a name or password; put credentials under users"
    if parts.query or parts.fragment:
        return "ends with a query or fragment; give scheme, host and port"
    return None


def host_problem(host: str, allowed: Sequence[str]) -> str | None:
    """The same of a host alone: a name, or an address in any way of writing that a resolver understands."""
    plain = host.rstrip(".").lower()
    address = _written(plain)
    if address is not None:
        return address_problem(address, allowed)
    if plain in _METADATA_NAMES:
        return "leads to a cloud's metadata service"
    if (plain in _LOCAL_NAMES or plain.endswith(".localhost")) and plain not in allowed:
        return "leads to the machine that Allotment itself runs on"
    return None


def address_problem(address: Address, allowed: Sequence[str], *, host: str = "") -> str | None:
    """The same of an address, to which an allowed `host` may have led. One that carries another (IPv4 in
    IPv6) is judged by both.
    """
    forms = _forms(address)
    if any(form in METADATA for form in forms):
        return "leads to a cloud's metadata service"
    for form in forms:
        kind = _kind(form)
        if kind and host not in allowed and not _is_allowed(form, allowed):
            return f"leads to {kind}"
    return None


def resolved_problem(server: str, allowed: Sequence[str]) -> str | None:
    """Where the server's name leads right now. A name that leads nowhere yet is accepted: each connection is
    judged again.
    """
    host = urlsplit(server).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    problems = (address_problem(ip_address(entry[4][0]), allowed, host=host) for entry in found)
    return next((problem for problem in problems if problem), None)


def _written(host: str) -> Address | None:
    """The address that a text is: also decimal, octal, hexadecimal or with fewer than four parts."""
    try:
        return ip_address(host)
    except ValueError:
        pass  # not as addresses are usually written
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _forms(address: Address) -> list[Address]:
    if isinstance(address, IPv4Address):
        return [address]
    carried: list[IPv4Address | None] = [address.ipv4_mapped, address.sixtofour]
    carried += address.teredo or ()
    is_compatible = 1 < int(address) < 1 << 32
    if address in _TRANSLATED or is_compatible:
        carried.append(IPv4Address(int(address) & 0xFFFFFFFF))
    # A mapped address is the one within; its own range says nothing of where it leads.
    own = [] if address.ipv4_mapped or address in _TRANSLATED else [address]
    return [*own, *(each for each in carried if each is not None)]


def _kind(address: Address) -> str:
    kinds = (
        (address.is_unspecified or address.is_loopback, "the machine that Allotment itself runs on"),
        (address.is_link_local, "the machine's own link"),
        (address.is_multicast, "a multicast group"),
        (any(address.version == net.version and address in net for net in _SHARED), "a shared network"),
        (address.is_reserved, "a reserved range"),
    )
    return next((words for holds, words in kinds if holds), "")


def _is_allowed(address: Address, allowed: Sequence[str]) -> bool:
    for text in allowed:
        try:
            network = ip_network(text)
        except ValueError:
            continue
        if network.version == address.version and address in network:
            return True
    return False
