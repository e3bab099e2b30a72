"""Defaults and rules of Deployment, StatefulSet and Job that depend on several fields.

Running them is the controllers' work.
"""

from __future__ import annotations

from sandbox.api.meta.errors import FieldError, invalid_value, required, unsupported
from sandbox.api.meta.objects import Obj, dig
from sandbox.api.meta.selectors import matches_selector
from sandbox.api.validation import podspecs

Errors = list[FieldError]
NO_LIMIT = 2**31 - 1
"""What a Job's backoffLimit is where each index has one of its own."""


def default_deployment(obj: Obj) -> None:
    """A rolling update moves a quarter of the pods at a time."""
    strategy = dig(obj, "spec", "strategy", default={})
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")


def default_statefulset(obj: Obj) -> None:
    """Partition 0, and claim templates typed like claims."""
    spec = obj.get("spec", {})
    strategy = spec.get("updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["status"] = {"phase": "Pending"}


def default_job(obj: Obj) -> None:
    """One completion and one pod at a time unless either is given."""
    spec = obj.get("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else NO_LIMIT)


def _template(obj: Obj) -> Errors:
    """Rules of pods hold for templates too."""
    spec = dig(obj, "spec", "template", "spec", default={})
    # A set's volumes come from its claim templates too: the real server leaves its mounts alone.
    found = podspecs.container_errors(spec, "spec.template.spec", mounts=obj["kind"] != "StatefulSet")
    replicas = dig(obj, "spec", "replicas")
    if isinstance(replicas, int) and replicas < 0:
        found.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
    return found


def validate_selector(obj: Obj) -> Errors:
    """The selector must select the template's labels."""
    return _selector(obj) + _template(obj)


def _selector(obj: Obj) -> Errors:
    spec = obj.get("spec", {})
    labels = dig(spec, "template", "metadata", "labels", default={})
    if spec.get("selector") == {}:
        return [invalid_value("spec.selector", {}, "empty selector is invalid for deployment")]
    if not matches_selector(spec.get("selector"), labels):
        return [
            invalid_value(
                "spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"
            )
        ]
    return _restart(spec, ("Always",))


def _restart(spec: Obj, allowed: tuple[str, ...]) -> Errors:
    policy = dig(spec, "template", "spec", "restartPolicy")
    if policy in (None, *allowed):
        return []
    return [unsupported("spec.template.spec.restartPolicy", policy, allowed)]


def validate_statefulset(obj: Obj) -> Errors:
    """Selector and restart policy."""
    return validate_selector(obj)


def validate_job(obj: Obj) -> Errors:
    """A job's pods may not restart for ever."""
    spec = obj.get("spec", {})
    found = _template(obj)
    for key in (
        "parallelism",
        "completions",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        if isinstance(spec.get(key), int) and spec[key] < 0:
            found.append(invalid_value(f"spec.{key}", spec[key], "must be greater than or equal to 0"))
    policy = dig(spec, "template", "spec", "restartPolicy")
    if policy == "Always":
        found.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return found + _indexed(spec)


def _indexed(spec: Obj) -> Errors:
    """What only an indexed job may have, and what its own fields ask of others."""
    found: Errors = []
    names = ("completionMode", "backoffLimitPerIndex", "maxFailedIndexes", "completions")
    mode, per_index, most, completions = (spec.get(name) for name in names)
    if most is not None and per_index is None:
        found.append(required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode == "Indexed":
        if completions is None:
            found.append(required("spec.completions", "when completion mode is Indexed"))
        elif isinstance(most, int) and most > completions:
            words = "must be less than or equal to completions"
            found.append(invalid_value("spec.maxFailedIndexes", most, words))
        return found
    for name, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", most)):
        if value is not None:
            found.append(invalid_value(f"spec.{name}", value, "requires indexed completion mode"))
    return found
