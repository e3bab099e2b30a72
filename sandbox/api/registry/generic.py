"""Reads and writes of one cluster by the generic rules: versions, defaults, validation, admission, owners.

Knows no HTTP. What one kind does differently stands in `strategies`; deletion stands in `deletion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sandbox.api.admission import chain
from sandbox.api.admission.chain import AdmissionHook, Review
from sandbox.api.auth.users import User
from sandbox.api.managedfields import owners
from sandbox.api.managedfields.fieldsets import empty_of
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, copy_of, meta, name_of, namespace_of, timestamp
from sandbox.api.registry import applying, deletion, strategies
from sandbox.api.schema import shaping
from sandbox.api.storage.store import Entry, Place
from sandbox.api.validation import cel_rules, metadata_rules, schema_rules
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
Transform = Callable[[Obj], Obj]


@dataclass(frozen=True)
class Options:
    """How one write is made. `validation` is Strict, Warn or Ignore for unknown fields."""

    user: User
    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Ignore"
    subresource: str = ""
    force: bool = False
    trusted: bool = False
    warnings: list[str] = field(default_factory=list)


class Registry:
    """All writes pass here; the store assigns the versions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self.hooks: list[AdmissionHook] = []

    # -- reading ---------------------------------------------------------------------------------------------

    def entry(self, kind: Kind, namespace: str, name: str) -> Entry:
        """The stored object or 404."""
        found = self.store.get(kind.key, Place(namespace, name))
        if found is None:
            raise errors.not_found(kind.plural, kind.group, name)
        return found

    # -- shaping ---------------------------------------------------------------------------------------------

    def shape(self, kind: Kind, body: Obj, options: Options) -> Obj:
        """The submitted object decoded, pruned and with defaults; unknown fields refused or warned of as
        asked.
        """
        applying.check_type(kind, body)
        shaper = shaping.Shaper(native=kind.native)
        rest = {key: value for key, value in body.items() if key != "metadata"}
        obj: Obj = shaper.shape(rest, kind.schema)
        metadata = shaping.Shaper(native=True)
        obj["metadata"] = metadata.shape(
            body.get("metadata") or {}, self.cluster.kinds.meta_schema(), "metadata"
        )
        wrong = metadata if metadata.mistyped else shaper if kind.native and shaper.mistyped else None
        if wrong is not None:
            raise errors.bad_request(wrong.decode_error(kind.kind, kind.version))
        order = list(body)
        self._unknown(
            kind,
            sorted(
                shaper.unknown + metadata.unknown,
                key=lambda path: order.index(path.split(".")[0].split("[")[0]),
            ),
            options,
        )
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
        strategies.default_first(kind, obj)
        shaping.fill(obj, kind.schema)
        strategies.default(kind, obj)
        return obj

    @staticmethod
    def _unknown(kind: Kind, unknown: list[str], options: Options) -> None:
        texts = [f'unknown field "{path}"' for path in unknown]
        if texts and options.validation == "Strict":
            raise errors.bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict '
                "decoding error: " + ", ".join(texts)
            )
        if options.validation == "Warn":
            options.warnings.extend(texts)

    def _validate(self, kind: Kind, obj: Obj, old: Obj | None) -> None:
        found = [] if old is not None else strategies.name_errors(kind, name_of(obj))
        found += metadata_rules.errors_of(obj["metadata"], core=kind.native and not kind.group)
        # Built-in kinds take any status: it is written by components, and the real server checks next to
        # nothing there.
        skip = ("metadata", "apiVersion", "kind", "status" if kind.native else "")
        rest = {**{key: value for key, value in obj.items() if key not in skip}, "metadata": {}}
        found += schema_rules.validate(rest, kind.schema, "", native=kind.native)
        found += strategies.validate(kind, obj)
        ordered = sorted(_once(found), key=lambda error: error.field)
        ordered += strategies.validate_change(kind, obj, old) if old else []
        if not kind.native and cel_rules.ruled(kind.schema):
            blocked = any(error.kind in cel_rules.BLOCKING for error in ordered)
            skipped = errors.invalid_value("<nil>", None, cel_rules.SKIPPED)
            ordered += [skipped] if blocked else cel_rules.check(obj, old, kind.schema)
        if ordered:
            raise errors.invalid(kind.kind, kind.group, name_of(obj), ordered)

    def _writer(self, kind: Kind, options: Options) -> owners.Writer:
        reset = (
            "status"
            if kind.has_status() and not options.subresource
            else "spec"
            if options.subresource == "status"
            else ""
        )
        return owners.Writer(
            options.manager[:128], kind.api_version, self.cluster.clock.now(), options.subresource, reset
        )

    def review(self, kind: Kind, obj: Obj, old: Obj | None, *, options: Options, operation: str) -> Review:
        """What admission hooks see."""
        return Review(
            operation,
            kind.key,
            options.subresource,
            namespace_of(obj),
            name_of(obj),
            obj,
            old,
            options.user,
            options.dry_run,
            self.cluster.clock.now(),
            self.cluster.system,
            options.warnings,
        )

    # -- create ----------------------------------------------------------------------------------------------

    def create(
        self, kind: Kind, namespace: str, body: Obj, options: Options, *, applied: Obj | None = None
    ) -> Obj:
        """Store a new object. 409 when the name is taken, 404 or 403 by its namespace, 422 by its content."""
        obj = self.shape(kind, self._named(body), options)
        metadata = meta(obj)
        applying.place_in(kind, namespace, metadata)
        if metadata.get("resourceVersion"):
            raise errors.ApiError(
                500, "resourceVersion should not be set on objects to be created", reason=""
            )
        self._namespace_open(kind, namespace, metadata.get("name", ""))
        self._born(kind, obj)
        if applied is None:
            metadata["managedFields"] = owners.update(
                self._nothing(kind), obj, kind.schema, self._writer(kind, options)
            )
        strategies.prepare_create(kind, obj, self.cluster)
        review = self.review(kind, obj, None, options=options, operation="CREATE")
        chain.mutate(self.hooks, review)
        shaping.fill(obj, kind.schema)
        strategies.settle(kind, obj)
        self._validate(kind, obj, None)
        if self.store.get(kind.key, Place(namespace, name_of(obj))) is not None:
            raise errors.already_exists(kind.plural, kind.group, name_of(obj))
        chain.validate(self.hooks, review)
        return self._commit(kind, obj, options)

    def _named(self, body: Obj) -> Obj:
        metadata = body.get("metadata") or {}
        if metadata.get("name") or not isinstance(metadata.get("generateName"), str):
            return body
        name = f"{metadata['generateName'][:58]}{self.cluster.ids.suffix()}"
        return {**body, "metadata": {**metadata, "name": name}}

    def _nothing(self, kind: Kind) -> Obj:
        return (
            empty_of(kind.schema)
            if kind.native
            else {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
        )

    def _namespace_open(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        space = self.store.get("namespaces", Place("", namespace))
        if space is None:
            raise errors.not_found("namespaces", "", namespace)
        if space.obj["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            problem = errors.forbidden(kind.plural, kind.group, name, why)
            causes = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            problem.details = {**(problem.details or {}), "causes": causes}
            raise problem

    def _born(self, kind: Kind, obj: Obj) -> None:
        metadata = obj["metadata"]
        for key in (*_KEPT, "resourceVersion"):
            metadata.pop(key, None)
        metadata |= {"uid": self.cluster.ids.uid(), "creationTimestamp": timestamp(self.cluster.clock.now())}
        if kind.generation:
            metadata["generation"] = 1

    def _commit(self, kind: Kind, obj: Obj, options: Options) -> Obj:
        if not obj["metadata"].get("managedFields"):
            obj["metadata"].pop("managedFields", None)
        if options.dry_run:
            return obj
        return self.store.put(kind.key, obj).obj

    # -- update ----------------------------------------------------------------------------------------------

    def update(self, kind: Kind, place: Place, transform: Transform, options: Options) -> Obj:
        """Replace an object by what `transform` makes of a copy of it. 409 when the result carries a stale
        version or another uid.
        """
        old = self.entry(kind, *place).obj
        new = self.shape(kind, transform(copy_of(old)), options)
        self._same_object(kind, place, old, new)
        strategies.copy_unwritable(kind, options.subresource, old, new)
        new["metadata"]["managedFields"] = owners.update(old, new, kind.schema, self._writer(kind, options))
        return self._store_update(kind, old, new, options)

    def apply(self, kind: Kind, place: Place, body: Obj, options: Options) -> tuple[Obj, bool]:
        """Server-side apply: the object and whether it was created."""
        if body.get("metadata", {}).get("managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        applied = applying.configuration(kind, place, body, options)
        found = self.store.get(kind.key, place)
        if found is None and options.subresource:
            raise errors.not_found(kind.plural, kind.group, place.name)
        live = copy_of(found.obj) if found else self._nothing(kind)
        merged = owners.apply(live, applied, kind.schema, self._writer(kind, options), force=options.force)
        if found is None:
            merged["metadata"].pop("resourceVersion", None)
            return self.create(kind, place.namespace, merged, options, applied=applied), True
        new = self.shape(kind, merged, replace(options, validation="Ignore"))
        self._same_object(kind, place, found.obj, new)
        strategies.copy_unwritable(kind, options.subresource, found.obj, new)
        return self._store_update(kind, found.obj, new, options), False

    def _same_object(self, kind: Kind, place: Place, old: Obj, new: Obj) -> None:
        metadata, before = new["metadata"], old["metadata"]
        name = metadata.setdefault("name", place.name)
        if name != place.name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({place.name})"
            )
        applying.place_in(kind, place.namespace, metadata)
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if uid and uid != before["uid"]:
            key = "/".join(part for part in ("/registry", kind.plural, *place) if part)
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, "
                f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
                f"UID in object meta: {before['uid']}"
            )
            raise errors.conflict(kind.plural, kind.group, name, why)
        if version and not str(version).isdigit():
            why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise errors.ApiError(500, why, reason="")
        if version and version != before["resourceVersion"]:
            raise errors.conflict(kind.plural, kind.group, name)
        if not version and not kind.native:
            problem = errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(kind.plural, kind.group, name, [problem])
        for key in (*_KEPT, "resourceVersion"):
            metadata.pop(key, None)
            if key in before:
                metadata[key] = before[key]

    def _store_update(self, kind: Kind, old: Obj, new: Obj, options: Options) -> Obj:
        strategies.prepare_update(kind, new, old, options.subresource)
        if options.subresource != "status":
            review = self.review(kind, new, old, options=options, operation="UPDATE")
            chain.mutate(self.hooks, review)
            shaping.fill(new, kind.schema)
        if kind.generation and strategies.spec_changed(kind, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._validate(kind, new, old)
        held = metadata_rules.new_finalizers(old, new)
        if held:
            # The real server finds this twice and says it once.
            raise errors.invalid(kind.kind, kind.group, name_of(new), held * 2)
        if options.subresource != "status":
            if not options.trusted:
                strategies.check_update(kind, new, old)
            chain.validate(self.hooks, review)
        if _unchanged(old, new):
            return old
        if deletion.finished(kind, new) and not options.dry_run:
            return self.store.remove(kind.key, Place(namespace_of(new), name_of(new)), new) or new
        return self._commit(kind, new, options)


def _once(found: list[errors.FieldError]) -> list[errors.FieldError]:
    """A kind's own rule says more than the schema's bare "Required value"."""
    detailed = {error.field for error in found if error.kind == "FieldValueRequired" and error.detail}
    return [
        error
        for error in found
        if error.kind != "FieldValueRequired" or error.detail or error.field not in detailed
    ]


def _unchanged(old: Obj, new: Obj) -> bool:
    """Equal but for the times in managedFields."""

    def timeless(obj: Obj) -> Obj:
        metadata = {**obj["metadata"]}
        metadata["managedFields"] = [
            {key: value for key, value in item.items() if key != "time"}
            for item in metadata.get("managedFields") or ()
        ]
        return {**obj, "metadata": metadata}

    return timeless(old) == timeless(new)
