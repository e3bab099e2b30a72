"""A watch as it comes: one event a line, until the server ends it or somebody closes it."""

import threading
from collections.abc import Iterator

import orjson
import urllib3

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import answers
from apps.cluster.specs import WatchEvent


class KubernetesWatch:
    """A running watch; see `WatchStream`."""

    def __init__(self, response: urllib3.HTTPResponse) -> None:
        self._response = response
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[WatchEvent]:
        """Every event; a dead connection is `Unreachable`, an end by the server or by `close` just ends."""
        try:
            for line in _lines(self._response):
                yield answers.event(orjson.loads(line))
        except urllib3.exceptions.ReadTimeoutError:
            return
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            # A socket that `close` shut down under a blocked read fails in many ways, all asked for.
            if not self._closed.is_set():
                raise Unreachable(answers.silence(error)) from error
        finally:
            self._response.close()

    def close(self) -> None:
        """Shut the socket down under the reader."""
        self._closed.set()
        try:
            self._response.shutdown()
        except (ValueError, RuntimeError, OSError):
            # It has ended by itself in this moment; there is nothing left to shut.
            return


def _lines(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(amt=None):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
    if rest:
        yield rest
