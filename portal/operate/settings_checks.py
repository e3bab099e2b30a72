"""Whether the settings of an installation are those of one that people may rely on. Asks nobody."""

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from portal.config import DEVELOPMENT_KEY, SHORTEST_KEY, Config
from portal.operate.findings import Finding, note, ok, wrong

_OPEN = 0


def check(config: Config) -> Iterator[Finding]:
    """In development what production needs is worth knowing only. Other processes may have other settings."""
    for judge in (_mode, _secret, _address, _hosts, _proxies):
        yield replace(judge(config), local=True)


def _graver(config: Config, name: str, seen: str, cure: str) -> Finding:
    return (wrong if config.mode == "production" else note)(name, seen, cure)


def _mode(config: Config) -> Finding:
    if config.mode == "production":
        return ok("mode", "production")
    return note("mode", "development", "Set ALLOTMENT_MODE=production where others use it")


def _secret(config: Config) -> Finding:
    if config.secret_key == DEVELOPMENT_KEY or len(config.secret_key) < SHORTEST_KEY:
        seen = "the secret key is the one of development, or shorter than 40 characters"
        return _graver(config, "secret key", seen, "Set ALLOTMENT_SECRET_KEY to 40 or more random characters")
    return ok("secret key", f"{len(config.secret_key)} characters")


def _address(config: Config) -> Finding:
    parts = urlsplit(config.public_url)
    cure = "Set ALLOTMENT_PUBLIC_URL to https://<host>, without a path"
    if not config.public_url:
        return _graver(config, "public address", "not set: links lead to this machine", cure)
    if parts.scheme != "https":
        return _graver(config, "public address", "not https: cookies are not kept to it", cure)
    if parts.path.strip("/") or parts.query or "@" in parts.netloc:
        return wrong("public address", "has a path, a query or a credential", cure)
    return ok("public address", "https")


def _hosts(config: Config) -> Finding:
    names = [name for name in config.hosts.split(",") if name]
    odd = [name for name in names if "*" in name or "/" in name or ":" in name or name != name.strip()]
    if odd:
        seen = f"{len(odd)} of {len(names)} further hosts are no plain names"
        cure = "Give ALLOTMENT_HOSTS names without scheme, port, star or space, comma separated"
        return wrong("allowed hosts", seen, cure)
    return ok("allowed hosts", f"the public address and {len(names)} further")


def _proxies(config: Config) -> Finding:
    if any(network.prefixlen == _OPEN for network in config.proxies):
        seen = "everybody may say from where they come: limits per client can be walked around"
        return wrong("trusted proxies", seen, "Name the proxy's own network in ALLOTMENT_TRUSTED_PROXIES")
    if not config.proxies and config.is_https:
        seen = "none: all clients behind the proxy count as one"
        return wrong("trusted proxies", seen, "Name the proxy's network in ALLOTMENT_TRUSTED_PROXIES")
    return ok("trusted proxies", f"{len(config.proxies)} networks")
