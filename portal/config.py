"""Every setting of an installation, typed, read once from the environment (`ALLOTMENT_*`).

All mistakes are reported together, each with what to do. Development needs no variable at all.
This module knows nothing of Django; `portal.settings` turns it into Django's settings.
What an installer sets stands in the chart too: `k8s/product/values.schema.json`, compared by tests/chart.
"""

import os
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from re import fullmatch
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from apps.accounts.oidc.providers import Provider, parse
from apps.workloads.opening.rules.hosts import Domain

ROOT = Path(__file__).resolve().parent.parent
SECRETS = Path(os.environ.get("ALLOTMENT_SECRETS", "/run/secrets"))
"""A folder of files instead of variables, where Compose puts them: `allotment_secret_key` holds what
`ALLOTMENT_SECRET_KEY` else would, and a variable comes before it.
"""
DEVELOPMENT_KEY = "development-only-key-never-accepted-outside-loopback"
SHORTEST_KEY = 40
"""Characters of a secret key in production."""
Network = IPv4Network | IPv6Network
DOMAIN = r"([\w-]+\.)+[\w-]+"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ConfigError(SystemExit):
    """All wrong settings in one message; the process ends before anything starts."""


class Config(BaseSettings):
    """The settings of one installation; names in the environment are upper case with the prefix."""

    model_config = SettingsConfigDict(
        env_prefix="ALLOTMENT_", extra="ignore", secrets_dir=SECRETS if SECRETS.is_dir() else None
    )
    # Django's lazy settings ask each value for it at each reading; Pydantic would look for a private field.
    _mask_wrapped: ClassVar[bool] = True

    home: Path = Field(default=ROOT / ".demo", description="where the embedded default keeps its data")
    mode: Literal["development", "production"] = "development"
    demo: bool = False
    secret_key: str = DEVELOPMENT_KEY
    old_secret_keys: str = Field(
        default="",
        repr=False,
        description="secret keys before this one, blank separated, the newest first: they still open",
    )
    bind: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    public_url: str = ""
    apps_url: str = Field(
        default="",
        pattern="^(https?://[a-z0-9.-]+(:[0-9]+)?)?$",
        description="below which each notebook has its host; empty: localhost at the door's port, and in "
        "production none",
    )
    door_port: int = Field(default=8001, ge=1, le=65535)
    door_cluster: str = Field(
        default="", description="slug of the cluster that the door runs in, whose Services it reaches itself"
    )
    gateway: str = Field(
        default="",
        pattern="^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$",
        description="namespace/name of the Gateway of the door's cluster that leads browsers to what they "
        "open; empty: every byte passes the door",
    )
    door_service: str = Field(
        default="",
        pattern="^([a-z]([a-z0-9-]{0,61}[a-z0-9])?)?$",
        description="the door's Service in allotment-system, which the Gateway asks",
    )
    door_check_port: int = Field(
        default=8002, ge=1, le=65535, description="where the door judges requests for the Gateway"
    )
    hosts: str = Field(
        default="", description="host names, comma separated; the public URL's host is included"
    )
    trusted_proxies: str = Field(
        default="", description="networks (CIDR), comma separated, whose X-Forwarded-For is believed"
    )
    cluster_addresses: str = Field(
        default="",
        description="hosts and networks that clusters registered over REST may name though they are refused",
    )
    database_url: str = Field(default="", description="postgresql://... ; empty: SQLite in home")
    database_pool: int = Field(
        default=0, ge=0, le=500, description="connections that threads share at most; 0: each its own"
    )
    redis_url: str = "redis://127.0.0.1:6379/0"
    currency: str = Field(default="EUR", pattern="^[A-Z]{3}$")
    effective_formula: Literal["max-sm-dram", "sm"] = Field(
        default="max-sm-dram", description="what of a charge counts as effective; docs/costs.md"
    )
    oidc: str = Field(default="", repr=False, description="JSON list of sign-in providers; docs/sign-in.md")
    password_sign_in: Literal["everybody", "break-glass"] = Field(
        default="everybody", description="break-glass: passwords open the account break_glass_user alone"
    )
    break_glass_user: str = Field(
        default="",
        pattern="^([A-Za-z0-9_.@+-]{1,150})?$",
        description="who comes in with a password when the organisation's sign-in is broken",
    )
    invited_domains: str = Field(
        default="",
        description="mail domains, comma separated, whose people leads may invite without asking",
    )
    second_factor: Literal["optional", "engineers"] = Field(
        default="optional",
        description="engineers: platform engineers who come in with a password must have a second factor",
    )
    metrics_token: str = Field(
        default="",
        pattern="^([!-~]{20,200})?$",
        description="bearer token that reads /metrics; empty: nobody does",
    )
    alive_file: str = Field(
        default="",
        description="a file that every process touches while it lives, for a container's health check",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"
    lease_seconds: int = Field(
        default=20, ge=5, le=600, description="how long a worker owns a row it reconciles"
    )
    sweep_seconds: int = Field(
        default=5, ge=1, le=300, description="how often rows without a hint are looked for"
    )
    streams_per_person: int = Field(
        default=20, ge=1, le=10_000, description="live streams that one person may have in one web process"
    )
    view_as_minutes: int = Field(
        default=30, ge=1, le=240, description="how long an engineer may see the portal as somebody else"
    )
    notebook_run_seconds: int = Field(
        default=8 * 3600, ge=600, description="a notebook's lease unless it asks for less"
    )
    protected_minutes: int = Field(
        default=60, ge=1, le=7 * 24 * 60, description="of a run, for which the class `protected` protects it"
    )
    kept_log_days: int = Field(default=30, ge=1, le=3650, description="how long logs of ended runs are kept")
    kept_log_megabytes: int = Field(
        default=500, ge=0, le=100_000, description="of a tenant's kept logs, compressed; 0: none is kept"
    )
    vcluster_chart_url: str = Field(
        default="https://charts.loft.sh",
        pattern="^(https?|oci)://",
        description="where Flux fetches the vCluster chart: a Helm repository, or an OCI registry",
    )
    ingress_namespace: str = Field(
        default="",
        pattern="^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$",
        description="whose pods lead people from outside to the APIs of virtual clusters; empty: nobody's",
    )
    deletion_grace_seconds: int = Field(
        default=7 * 24 * 3600, ge=0, description="between the second approval of a tenant's deletion and it"
    )
    longest_run_seconds: int = Field(default=72 * 3600, ge=600, description="how far a lease may be extended")
    telemetry_source: Literal["auto", "prometheus", "dcgm", "agent", "off"] = Field(
        default="auto", description="auto: the simulated cluster's exporters, nothing of a real one"
    )
    telemetry_url: str = Field(
        default="",
        pattern="^(https?://.*)?$",
        description="Prometheus, or a list of exporters (HTTP discovery); {cluster} stands for the slug",
    )
    telemetry_ca_file: str = Field(default="", description="PEM; empty: the cluster's own, then the system's")
    telemetry_token_file: str = Field(default="", description="a bearer token for the telemetry URL")
    telemetry_job: str = Field(default="dcgm-exporter", description="the only Prometheus job believed")
    telemetry_namespace: str = Field(default="", description="the exporters' namespace; empty: any")
    telemetry_pod_label: str = Field(default="", description="empty: exported_pod, or pod of an exporter")
    telemetry_namespace_label: str = Field(default="", description="as the pod label, for the namespace")
    telemetry_step_seconds: int = Field(default=30, ge=5, le=300, description="the collection interval")
    telemetry_lookback_hours: int = Field(
        default=48, ge=1, le=24 * 30, description="how far a gap is read back"
    )
    ledger_fine_days: int = Field(
        default=14, ge=2, le=400, description="how long the ledger keeps 5 minutes; never longer than samples"
    )
    telemetry_retention_days: int = Field(default=30, ge=2, le=400, description="how long samples are kept")

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        if value and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://, or be empty for SQLite in ALLOTMENT_HOME")
        return value

    @field_validator("redis_url")
    @classmethod
    def _known_broker(cls, value: str) -> str:
        if not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _known_networks(cls, value: str) -> str:
        _networks(_listed(value))
        return value

    @field_validator("oidc")
    @classmethod
    def _known_providers(cls, value: str) -> str:
        parse(value)
        return value

    @field_validator("cluster_addresses")
    @classmethod
    def _known_hosts(cls, value: str) -> str:
        _networks(tuple(part for part in _listed(value) if "/" in part))
        return value.lower()

    @field_validator("invited_domains")
    @classmethod
    def _known_domains(cls, value: str) -> str:
        for each in _listed(value):
            if not fullmatch(DOMAIN, each):
                raise ValueError(
                    f"must be domains such as lab.example.org, comma separated; {each!r} is none"
                )
        return value.lower()

    @model_validator(mode="after")
    def _safe_together(self) -> "Config":
        wrong: list[str] = []
        if self.demo and self.bind not in LOOPBACK:
            wrong.append(
                "ALLOTMENT_DEMO has sign-in buttons without a password: bind to 127.0.0.1, or switch DEMO off"
            )
        is_closed = self.password_sign_in != "everybody"  # noqa: S105 - a word of ours, no password
        if is_closed and not (self.oidc.strip() and self.break_glass_user):
            wrong.append(
                "ALLOTMENT_PASSWORD_SIGN_IN: without passwords people need ALLOTMENT_OIDC, and you "
                "ALLOTMENT_BREAK_GLASS_USER for the day when that is broken"
            )
        needed = {"ALLOTMENT_DOOR_CLUSTER": self.door_cluster, "ALLOTMENT_DOOR_SERVICE": self.door_service}
        if self.gateway and not all(needed.values()):
            absent = " and ".join(name for name, value in needed.items() if not value)
            wrong.append(f"ALLOTMENT_GATEWAY: the Gateway asks the door of its own cluster, set {absent} too")
        if self.mode == "production":
            wrong += self._production_mistakes()
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def _production_mistakes(self) -> list[str]:
        wrong = []
        if self.secret_key == DEVELOPMENT_KEY or len(self.secret_key) < SHORTEST_KEY:
            wrong.append("ALLOTMENT_SECRET_KEY: set 40 or more random characters")
        if any(len(key) < SHORTEST_KEY for key in self.former_keys):
            wrong.append(
                "ALLOTMENT_OLD_SECRET_KEYS: whole keys, blank separated; one is shorter than 40 characters"
            )
        if not self.public_url.startswith("https://"):
            wrong.append("ALLOTMENT_PUBLIC_URL: production is served over https only, give https://<host>")
        if not self.database_url:
            wrong.append("ALLOTMENT_DATABASE_URL: production needs PostgreSQL (postgresql://user@host/name)")
        if self.apps_url and not self.apps_url.startswith("https://"):
            wrong.append("ALLOTMENT_APPS_URL: production is served over https only, give https://<domain>")
        if self.demo:
            wrong.append("ALLOTMENT_DEMO: not in production")
        return wrong

    @property
    def former_keys(self) -> list[str]:
        """Secret keys that no longer seal and still open, the newest first."""
        return self.old_secret_keys.split()

    @property
    def deletion_grace(self) -> timedelta:
        """How long an approved deletion of a tenant can still be taken back."""
        return timedelta(seconds=self.deletion_grace_seconds)

    @property
    def protection(self) -> timedelta:
        """How long a run of the class `protected` keeps what it borrowed."""
        return timedelta(minutes=self.protected_minutes)

    @property
    def providers(self) -> tuple[Provider, ...]:
        """Organisations' sign-ins, in the order of their buttons."""
        return parse(self.oidc)

    @property
    def proxies(self) -> tuple[Network, ...]:
        """Whose X-Forwarded-For is believed; see `apps.web.requests.client_address`."""
        return _networks(_listed(self.trusted_proxies))

    @property
    def invitable(self) -> frozenset[str]:
        """The mail domains, in small letters, whose people leads may invite without asking."""
        return frozenset(_listed(self.invited_domains))

    @property
    def development_clusters(self) -> tuple[str, ...]:
        """What clusters registered over REST may name though it is refused; see `gateway.addresses`."""
        return _listed(self.cluster_addresses)

    @property
    def url(self) -> str:
        """Where people reach the portal, without a trailing slash."""
        return (self.public_url or f"http://{self.bind}:{self.port}").rstrip("/")

    @property
    def apps(self) -> Domain | None:
        """Below which notebooks have their hosts; None: they are not opened here."""
        if not self.apps_url and self.mode == "production":
            return None
        parts = urlsplit(self.apps_url or f"http://localhost:{self.door_port}")
        return Domain(parts.scheme, parts.netloc)

    @property
    def is_https(self) -> bool:
        """Whether cookies may be `Secure` and carry the `__Host-` prefix."""
        return self.url.startswith("https://")


def load() -> Config:
    """Read the environment; end the process with every mistake named when it is wrong."""
    try:
        return Config()
    except ValidationError as error:
        problems = error.errors()
        problems += _together({str(item["loc"][0]) for item in problems if item["loc"]})
        lines = [f"- {_where(item['loc'])}{item['msg'].removeprefix('Value error, ')}" for item in problems]
        raise ConfigError("Allotment cannot start; correct these settings:\n" + "\n".join(lines)) from None


def _together(wrong: set[str]) -> list[ErrorDetails]:
    """Settings that do not go together. Those that are wrong by themselves are judged with their defaults.

    Pydantic looks at the whole only once every part is right; people want to hear of everything at once.
    """
    if not wrong:
        return []
    try:
        Config(**{name: Config.model_fields[name].get_default() for name in wrong})
    except ValidationError as error:
        return error.errors()
    return []


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise ValueError(f"must be networks such as 10.0.0.0/24, comma separated; {error}") from None


def _where(location: tuple[int | str, ...]) -> str:
    return f"ALLOTMENT_{str(location[0]).upper()}: " if location else ""
