"""README's two commands from a folder of packages, where no registry is reached; the bill of materials."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.patience import patient, until
from tests.ports import free_port

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]
PLAIN = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/"),
    # What pip once fetched would come from its cache, without the folder.
    "PIP_NO_CACHE_DIR": "1",
}
LOOPBACK = "ip link set lo up"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As somebody fetches them where the internet is."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run(["make", "packages", f"FOLDER={folder}"], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone of what is committed."""
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("to take the network away needs root and unshare")
    folder = tmp_path_factory.mktemp("clone") / "allotment"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def alone(words: str) -> list[str]:
    """A line of shell in a network of its own, with all that it starts."""
    return ["unshare", "--net", "sh", "-c", f"{LOOPBACK} && {words}"]


def done(words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        alone(words), cwd=folder, env=PLAIN, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=patient(600), check=False,
    )  # fmt: skip


def test_without_the_folder_nothing_is_installed(clone: Path) -> None:
    """Else the others would show nothing."""
    make = done("make .venv/.run", clone)
    assert make.returncode
    assert "No matching distribution" in make.stdout or "Could not find" in make.stdout, make.stdout[-2000:]


def test_the_demo_starts(clone: Path, packages: Path, tmp_path: Path) -> None:
    port, said = free_port(run=2), tmp_path / "said"
    ask = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/sign-in/').status)"
    words = alone(f"exec make demo PACKAGES={packages} PORT={port} HISTORY=0 >{said} 2>&1")
    with subprocess.Popen(words, cwd=clone, env=PLAIN, start_new_session=True) as demo:
        inside = ["nsenter", "--net", f"--target={demo.pid}", str(clone / ".venv/bin/python"), "-c", ask]

        def answers() -> bool:
            assert demo.poll() is None, said.read_text()[-3000:]
            return subprocess.run(inside, capture_output=True, check=False).stdout.strip() == b"200"

        try:
            until(answers, "the first page", 600, every=1)
        finally:
            os.killpg(demo.pid, signal.SIGTERM)
            demo.wait(patient(30))


def test_the_tests_programs_are_installed_and_run(clone: Path, packages: Path) -> None:
    """What `make test` starts, not all that it does: `test_pythons` runs it whole."""
    make = done(f"make lint migrations PACKAGES={packages}", clone)
    assert make.returncode == 0, make.stdout[-3000:]
    assert "No changes detected" in make.stdout


def test_the_bill_of_materials_has_what_the_lock_installs_with_licences() -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True)
    bill = json.loads((ROOT / ".verify" / "allotment.cdx.json").read_text())
    assert bill["metadata"]["component"]["name"] == "allotment"
    lines = (ROOT / "requirements" / "base.txt").read_text().splitlines()
    locked = [Requirement(line.rstrip("\\ ")) for line in lines if line[:1].isalnum()]
    here = {(each.name, str(each.specifier)) for each in locked if not each.marker or each.marker.evaluate()}
    parts = bill["components"]
    assert {(part["name"].lower().replace("_", "-"), f"=={part['version']}") for part in parts} == here
    assert sum("licenses" in part for part in parts) > 0.9 * len(here)
