"""What a person puts into `~/.ssh` once, so that `ssh WORKLOAD.TENANT.allotment` leads here. Reads only."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.conf import settings
from django.templatetags.static import static

from apps.accounts.specs import Actor
from apps.sealing import SSH_HOST, derivable
from apps.workloads.models import Workload
from apps.workloads.opening.rules.hosts import ALIAS, alias
from apps.workloads.opening.selectors import shell_access

HOST = "allotment"
"""By which name every host's key is known: they are all one server."""


def host_keys() -> list[bytes]:
    """The server's own keys, as OpenSSH writes private ones. They are kept nowhere: each is made of a secret
    key of the installation. RULE: the oldest first, by which everybody knows the server; it sends the others
    to whoever knows it, so that they know it later too.
    """
    return [key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()) for key in _keys()]


def known_hosts() -> str:
    """The lines by which `ssh` knows the server: so that nobody else can take its place."""
    public = [key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for key in _keys()]
    return "\n".join(f"{HOST} {key.decode()}" for key in public)


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
        "    UpdateHostKeys yes\n"
        "    User me\n"
    )


def helper_url() -> str:
    """Where the program is that carries SSH in a WebSocket."""
    return settings.CONFIG.url + static("bin/allotment-ssh")


def command_for(actor: Actor, row: Workload) -> str:
    """What the actor types to be inside; empty where they never are."""
    return f"ssh {alias(row.tenant.slug, row.slug)}" if shell_access.never(actor, row) is None else ""


def _keys() -> list[Ed25519PrivateKey]:
    seeds = reversed(derivable(SSH_HOST, "ed25519"))
    return [Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)) for seed in seeds]
