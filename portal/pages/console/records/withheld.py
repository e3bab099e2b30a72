"""What of the database the records show: all models of the product, and no column that opens something."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from django.apps import apps
from django.db import models

if TYPE_CHECKING:
    Column: TypeAlias = models.Field[Any, Any]

LIKE_A_SECRET = re.compile(
    r"sealed|digest|hash|secret|token|password|passphrase|key|code|cookie|credential|nonce|verifier|session"
    r"|salt|private|kubeconfig|prefix"
)
"""Names that secrets have. A column with such a name is withheld until it is entered below."""
WITHHELD: Mapping[str, frozenset[str]] = {
    label: frozenset(names.split())
    for label, names in {
        # What was answered once may hold a token or a link that is shown once.
        "web.IdempotencyKey": "credential key body_hash headers response",
        "accounts.User": "password",
        "accounts.ApiToken": "digest",
        "accounts.Invitation": "digest",
        "accounts.Authenticator": "sealed",
        "accounts.Passkey": "digest credential",
        "accounts.RecoveryCode": "digest",
        "accounts.SignInFlow": "digest state nonce verifier",
        "accounts.PersonSession": "session_key",
        "accounts.Viewing": "session_key",
        "cluster.Cluster": "kubeconfig_sealed",
        "tenants.RegistryCredential": "sealed",
        "workloads.ServiceToken": "digest old_digest",
        "workloads.WorkloadSecret": "sealed",
        "workloads.Opening": "session code cookie browser",
    }.items()
}
"""What opens something, or is the digest of what does: guessed at leisure by whoever copies a page."""
OPEN: Mapping[str, frozenset[str]] = {
    label: frozenset(names.split())
    for label, names in {
        "audit.ChainHead": "hash",
        "audit.AuditEvent": "token previous_hash hash",
        "accounts.ApiToken": "prefix",
        "accounts.RecoveryCode": "key",
        "cluster.Cluster": "kubeconfig_path",
        "cluster.MirrorObject": "sent_hash applied_hash live_hash",
        "workloads.ServiceToken": "prefix",
        "workloads.Workload": "names_pull_secret secret_names run_secrets run_key",
        "workloads.Opening": "token code_ends_at",
        "workloads.ImageRule": "prefixes",
        "metering.Statement": "digest focus_digest",
    }.items()
}
"""What is only called like a secret: names of secrets and keys, sums over what everybody sees, moments."""


def is_withheld(field: Column) -> bool:
    """Whether a column is on no page of the records: a secret, what may be one, and bytes."""
    label = field.model._meta.label
    if isinstance(field, models.BinaryField) or field.name in WITHHELD.get(label, ()):
        return True
    return bool(LIKE_A_SECRET.search(field.name)) and field.name not in OPEN.get(label, ())


def columns_of(model: type[models.Model]) -> list[Column]:
    """The columns that are shown, in the order of the model."""
    return [field for field in model._meta.concrete_fields if not is_withheld(field)]


def is_listed(model: type[models.Model]) -> bool:
    """Whether its rows have pages: a model of the product with a key of one column that is no secret."""
    key = model._meta.pk
    is_ours = model._meta.app_config is not None and model._meta.app_config.name.startswith("apps.")
    return (
        is_ours
        and not model._meta.auto_created
        and not isinstance(key, models.CompositePrimaryKey)
        and not is_withheld(key)
    )


def listed_models() -> Iterator[type[models.Model]]:
    """All models whose rows have pages: one that comes later is there by itself."""
    return (model for model in apps.get_models() if is_listed(model))
