"""What draws a terminal in a browser: xterm.js and its style sheet, out of the wheel of NiceGUI, which keeps
them as plain files. Nothing of NiceGUI itself is used.

`python -m portal.packages.terminal_files` brings them (the Makefile and the Dockerfile do).
"""

import sys
from pathlib import Path

from portal.packages import wheel_files

FOLDER = Path(sys.prefix) / "share" / "allotment" / "xterm"
"""Beside the packages of the environment; served below `/static/xterm/`."""
PROGRAM, STYLE = "xterm.js", "xterm.css"
_INSIDE = "nicegui/elements/xterm/dist/"
_SOURCES = {PROGRAM: f"{_INSIDE}index.js", STYLE: f"{_INSIDE}xterm.css"}
_MAP = b"//# sourceMappingURL="
"""The last line of a program whose map the wheel does not have."""


def are_here() -> bool:
    """Whether they were brought."""
    return all((FOLDER / name).is_file() for name in _SOURCES)


def bring() -> str | None:
    """Bring them unless they are here; why that did not work, or None."""
    if are_here():
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with wheel_files.opened("terminal.txt") as wheel:
            for name, inside in _SOURCES.items():
                (FOLDER / name).write_bytes(wheel.read(inside).partition(_MAP)[0])
    except wheel_files.NotBrought as why:
        return f"The terminal's files could not be brought.\n{why}"
    return None


if __name__ == "__main__":
    sys.exit(bring())
