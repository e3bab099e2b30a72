"""What a person does by the `ssh` of their own machine, set up as the portal says."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Machine:
    """A person's machine: what lies in its `~/.ssh`."""

    folder: Path

    def command(self, *words: str) -> list[str]:
        """`ssh` with these words, in this machine's own settings alone."""
        return ["ssh", "-F", str(self.folder / "config"), "-o", "BatchMode=yes", *words]

    def run(self, *words: str, sent: bytes = b"", **how: Any) -> subprocess.CompletedProcess[bytes]:
        """One run of `ssh`, to its end."""
        return subprocess.run(
            self.command(*words), input=sent, capture_output=True, check=False, timeout=patient(60), **how
        )

    def begun(self, *words: str) -> subprocess.Popen[bytes]:
        """One that runs on."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(*words), stdin=pipe, stdout=pipe, stderr=pipe)


def set_up(person: httpx.Client, folder: Path) -> Machine:
    """Make a key pair, add it in the portal, and put what it says into a folder in the place of `~/.ssh`."""
    folder.mkdir(parents=True)
    key, helper = folder / "id_ed25519", folder / "allotment-ssh"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    added = person.post("/me/ssh-keys", json={"text": key.with_suffix(".pub").read_text()})
    assert added.status_code == 201, added.text
    setup = person.get("/me/ssh-setup").raise_for_status().json()
    shutil.copy(ROOT / "static" / "bin" / "allotment-ssh", helper)
    (folder / "allotment_known_hosts").write_text(setup["known_hosts"] + "\n")
    config = setup["config"].replace("~/.ssh/allotment-ssh", f"{sys.executable} {helper}")
    (folder / "config").write_text(f"{config.replace('~/.ssh', str(folder))}    IdentityFile {key}\n")
    return Machine(folder)


def allow(platform: httpx.Client, tenant: str, *, is_on: bool) -> None:
    """A platform engineer turns the policy of a tenant on or off."""
    answer = platform.patch(
        f"/tenants/{tenant}",
        json={"spec": {"shell": is_on}},
        headers={"If-Match": "*", "Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code in (200, 202), answer.text
