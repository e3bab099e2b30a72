"""The end of a log in compressed pieces, as it is kept. Pure.

However long the log is, no more than its last bytes are held, most of them compressed.
"""

import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_BYTES = 10 * 1024 * 1024
PIECE = 256 * 1024
LONGEST_LINE = 1024 * 1024
"""A line that goes on for longer is cut: a container need never end it."""


@dataclass(frozen=True)
class Piece:
    """Whole lines: how many bytes they are, and they themselves, compressed."""

    size: int
    data: bytes


@dataclass
class LogEnd:
    """Takes a log as it comes, and keeps its end in pieces of whole lines."""

    most: int = MOST_BYTES
    pieces: deque[Piece] = field(default_factory=deque)
    size: int = 0
    is_cut: bool = False
    _rest: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """The next bytes."""
        self._rest += chunk
        while len(self._rest) >= PIECE:
            end = self._rest.rfind(b"\n", 0, PIECE) + 1 or self._rest.find(b"\n") + 1
            if not end and len(self._rest) < LONGEST_LINE:
                return
            self._keep(end or LONGEST_LINE)

    def finish(self) -> "LogEnd":
        """No more bytes come."""
        if self._rest:
            self._keep(len(self._rest))
        return self

    def _keep(self, end: int) -> None:
        lines = bytes(self._rest[:end])
        del self._rest[:end]
        self.pieces.append(Piece(len(lines), zlib.compress(lines, 6)))
        self.size += len(lines)
        while self.size > self.most:
            self.size -= self.pieces.popleft().size
            self.is_cut = True


def last_lines(newest_first: Iterable[bytes], most: int) -> str:
    """The last lines out of compressed pieces, of which no more are taken than that needs."""
    text = b""
    for data in newest_first:
        text = zlib.decompress(data) + text
        if text.count(b"\n") > most:
            break
    lines = text.decode(errors="replace").splitlines(keepends=True)
    return "".join(lines[-most:])
