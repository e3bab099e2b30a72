"""A container's log as it grows, on the event loop: a reader costs no thread, and its connection goes with
it.

A quiet container may send nothing for hours, not even the head of its answer: whoever reads leaves at any
moment, which a thread waiting on a socket could not.
"""

import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx

from apps import tls
from apps.cluster.errors import Unreachable
from apps.cluster.gateway import answers
from apps.cluster.gateway.connecting import GuardedTransport

CONNECT_SECONDS = 3.0
QUIET_SECONDS = 600.0
LONGEST_LINE = 64 * 1024
logging.getLogger("httpx").setLevel(logging.WARNING)
"""It would log every address that is asked."""


@dataclass(frozen=True)
class Door:
    """How to reach an API server; without a proxy the environment's is not looked for.

    `is_guarded`: its address came over the network, so each connection is judged (`connecting`).
    """

    headers: Mapping[str, str]
    trust: ssl.SSLContext
    server_name: str = ""
    proxy: str = ""
    is_guarded: bool = False


def trust_of(known: Any) -> ssl.SSLContext:
    """What the Kubernetes library's configuration says of certificates; anew when their files change."""
    files = [Path(name) for name in (known.ssl_ca_cert, known.cert_file, known.key_file) if name]
    return _trust(known, tuple(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=64)
def _trust(known: Any, _changed: tuple[int, ...]) -> ssl.SSLContext:
    trust = tls.trusting(known.ca_cert_data, file=known.ssl_ca_cert)
    trust.check_hostname = known.verify_ssl and known.assert_hostname is not False
    if not known.verify_ssl:
        trust.verify_mode = ssl.CERT_NONE
    if known.cert_file:
        trust.load_cert_chain(known.cert_file, known.key_file)
    return trust


async def lines(url: str, door: Door) -> AsyncGenerator[Sequence[str], None]:
    """The lines, those together that came together; ends with the container, and where nothing comes for ten
    minutes: ask again then. Raises what the gateway raises.
    """
    limits = httpx.Timeout(CONNECT_SECONDS, read=QUIET_SECONDS)
    known = {"sni_hostname": door.server_name} if door.server_name else {}
    how: dict[str, Any] = {"verify": door.trust, "proxy": door.proxy or None}
    if door.is_guarded:
        how = {"transport": GuardedTransport(door.trust)}
    client = httpx.AsyncClient(**how, timeout=limits, trust_env=False)
    try:
        async with client, client.stream("GET", url, headers=dict(door.headers), extensions=known) as answer:
            if answer.status_code >= 400:
                raise answers.refusal(answer.status_code, answer.headers, await answer.aread())
            async for batch in split(answer.aiter_bytes()):
                yield batch
    except httpx.ReadTimeout:
        return
    except (httpx.HTTPError, OSError) as error:
        raise Unreachable(answers.silence(error)) from error


async def split(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Sequence[str], None]:
    """Whole lines; one that goes on for 64 KiB is cut, because a container need never end it."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            whole, rest = [*whole, rest], b""
        if whole:
            yield [line.decode(errors="replace") for line in whole]
    if rest:
        yield [rest.decode(errors="replace")]
