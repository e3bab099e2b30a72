"""What a person puts into `~/.ssh` once, so that `ssh WORKLOAD.TENANT.allotment` leads here. Reads only."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.conf import settings
from django.templatetags.static import static

from apps.accounts.specs import Actor
from apps.sealing import SSH_HOST, derived
from apps.workloads.models import Workload
from apps.workloads.opening.rules.hosts import ALIAS, alias
from apps.workloads.opening.selectors import shell_access

HOST = "allotment"
"""By which name every host's key is known: they are all one server."""


def host_key() -> bytes:
    """The server's own key, as OpenSSH writes a private one. It is kept nowhere: another secret key of the
    installation is another server.
    """
    return _key().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def known_hosts() -> str:
    """The line by which `ssh` knows the server: so that nobody else can take its place."""
    public = _key().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return f"{HOST} {public.decode()}"


def config() -> str:
    """The part of `~/.ssh/config`; empty where there is no door."""
    if settings.CONFIG.apps is None:
        return ""
    return (
        f"Host *{ALIAS}\n"
        f"    ProxyCommand ~/.ssh/allotment-ssh {settings.CONFIG.apps.shells_url} %h\n"
        f"    HostKeyAlias {HOST}\n"
        "    UserKnownHostsFile ~/.ssh/allotment_known_hosts\n"
        "    StrictHostKeyChecking yes\n"
        "    User me\n"
    )


def helper_url() -> str:
    """Where the program is that carries SSH in a WebSocket."""
    return settings.CONFIG.url + static("bin/allotment-ssh")


def command_for(actor: Actor, row: Workload) -> str:
    """What the actor types to be inside; empty where they never are."""
    return f"ssh {alias(row.tenant.slug, row.slug)}" if shell_access.never(actor, row) is None else ""


def _key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(derived(SSH_HOST, "ed25519")))
