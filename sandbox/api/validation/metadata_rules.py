"""Rules of ObjectMeta: names, labels, annotations, finalizers, owner references. Knows no kind."""

from __future__ import annotations

import re

from sandbox.api.meta.errors import FieldError, field_forbidden, invalid_value
from sandbox.api.meta.objects import Obj

Errors = list[FieldError]
_DNS_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_DNS_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LABEL_NAME = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


LABEL_KEY_RULE = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_BARE_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"


def name_error(name: str, *, label: bool, limit: int, path: str = "metadata.name") -> FieldError | None:
    """What is wrong with an object's name, if anything: DNS label or subdomain, up to `limit` characters."""
    shape, rule = (_DNS_LABEL, LABEL_RULE) if label else (_DNS_SUBDOMAIN, SUBDOMAIN_RULE)
    if len(name) > limit:
        return invalid_value(path, name, f"must be no more than {limit} bytes")
    if label and "." in name and _DNS_SUBDOMAIN.match(name):
        return invalid_value(path, name, "must not contain dots")
    return None if shape.match(name) else invalid_value(path, name, rule)


def _key_error(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and ("/" in prefix or not prefix):
        return LABEL_KEY_RULE
    return "" if len(name) <= 63 and _LABEL_NAME.match(name) else QUALIFIED_RULE


def errors_of(metadata: Obj, *, core: bool) -> Errors:
    """Every broken rule. Core kinds want a domain in every finalizer."""
    found: Errors = []
    for field in ("labels", "annotations"):
        problems = ((key, _key_error(key)) for key in metadata.get(field) or {})
        found += [invalid_value(f"metadata.{field}", key, problem) for key, problem in problems if problem]
    for value in (metadata.get("labels") or {}).values():
        if len(value) > 63:
            found.append(invalid_value("metadata.labels", value, "must be no more than 63 bytes"))
        elif not _LABEL_VALUE.match(value):
            found.append(invalid_value("metadata.labels", value, LABEL_VALUE_RULE))
    size = sum(len(key) + len(value) for key, value in (metadata.get("annotations") or {}).items())
    if size > 256 * 1024:
        problem = "Too long: may not be more than 262144 bytes"
        found.append(FieldError("FieldValueTooLong", "metadata.annotations", problem))
    return found + _finalizers(metadata, core=core) + _owners(metadata)


def _finalizers(metadata: Obj, *, core: bool) -> Errors:
    found: Errors = []
    for index, name in enumerate(metadata.get("finalizers") or ()):
        if core and "/" not in name and name not in _FINALIZERS:
            found.append(invalid_value(f"metadata.finalizers[{index}]", name, _BARE_FINALIZER))
        problem = _key_error(name)
        if problem:
            found.append(invalid_value("metadata.finalizers", name, problem))
    return found


def _owners(metadata: Obj) -> Errors:
    owners = metadata.get("ownerReferences") or []
    found: Errors = []
    for owner in owners:
        for key, text in (
            ("uid", "must not be empty"),
            ("name", "must not be empty"),
            ("kind", "must not be empty"),
            ("apiVersion", "version must not be empty"),
        ):
            if not owner.get(key):
                found.append(invalid_value(f"metadata.ownerReferences.{key}", "", text))
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
        shown = [{key: owner[key] for key in order if key in owner} for owner in owners]
        found.append(invalid_value("metadata.ownerReferences", shown, why))
    return found


def new_finalizers(old: Obj, new: Obj) -> Errors:
    """No new finalizer once an object is being deleted."""
    extra = sorted(
        set(new["metadata"].get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
    )
    if not extra or not old["metadata"].get("deletionTimestamp"):
        return []
    listed = ", ".join(f'"{name}"' for name in extra)
    why = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [field_forbidden("metadata.finalizers", why)]
