"""From JSON to a WorkloadSpec and back. Pure: every surface parses here, so every surface refuses alike.

`parse` raises Invalid with every wrong field at once, or answers a spec that is valid in itself; whether the
offer exists and quota allows it is asked in `apps.workloads.lifecycle.services.verbs`.
"""

import ipaddress
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from apps.cluster.objects import quantities
from apps.errors import FieldProblem, Invalid
from apps.quotas.specs import Priority
from apps.ranges import (
    DEVICES_PER_POD,
    OWN_IDLE_SECONDS,
    RUN_SECONDS,
    WAIT_SECONDS,
)
from apps.workloads import registry
from apps.workloads.spec.bodies import WorkloadSpecBody
from apps.workloads.spec.field_reader import Reader, wrong_text
from apps.workloads.specs import (
    Block,
    IdleAction,
    IdleWish,
    Kind,
    Volume,
    WorkloadSpec,
)

FIELDS = (
    "kind", "offer", "count", "image", "command", "args", "env", "cpu", "memory", "volumes", "priority",
    "suspend",
    "max_wait_seconds", "max_run_seconds", "idle_policy", *map(str, Kind),
)  # fmt: skip
LATER = tuple(name for name in ("offers", "env_from_secrets", "training", "service") if name not in set(Kind))
"""Fields of the contract that this version cannot keep yet: null is accepted, a value is refused."""


class Texts(NamedTuple):
    """A list of at most `most` texts, of at most `longest` characters each."""

    most: int
    longest: int


COMMAND = Texts(64, 4096)
ARGS = Texts(256, 16384)
MOST_VOLUMES = 8
LONGEST_KEPT = 4096
MEBIBYTE = 1024**2
MOST_VARIABLES = 200
MOST_CPU_MILLIS = 1_000_000
MOST_BYTES = 1024**5
OFFER = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
VOLUME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MOUNT = re.compile(r"(/[A-Za-z0-9._-]+)+")
PART_PATTERN = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
HOST_PATTERN = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
IMAGE = re.compile(
    rf"(?:(?P<host>{HOST_PATTERN})(?P<port>:[0-9]{{1,5}})?/)?{PART_PATTERN}(?:/{PART_PATTERN})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
"""The grammar of an OCI image reference (distribution/reference)."""

FORBIDDEN_VARIABLES = ("NVIDIA_", "CUDA_MPS_", "CUDA_VISIBLE_DEVICES", "LD_")
"""These steer the driver or the loader: a container could see devices that it was not given."""
FORBIDDEN_MOUNTS = ("/dev", "/proc", "/sys", "/etc", "/bin", "/sbin", "/usr", "/lib", "/var/run", "/run")


def has_digest(reference: str) -> bool:
    """Whether an image's reference names its content, so that it is the same image on every node."""
    return "@sha256:" in reference


def parse(document: object, *, passes_over: bool = False) -> WorkloadSpec:
    """A spec out of the JSON object `spec` of a request; Invalid with a pointer for each wrong field. Fields
    that are not known are wrong too, unless it `passes_over` them.

    Units: cpu and memory and sizes are Kubernetes quantities, durations whole seconds, count devices per pod.
    """
    problems: list[FieldProblem] = []
    read = Reader(document, at="/spec", problems=problems, passes_over=passes_over)
    read.only({*FIELDS, *LATER})
    for name in LATER:
        if read.has(name) and read.fields[name] not in ([], {}):
            read.refuse(name, f"{name} is not available in this version: leave it out.")
    kind = _kind(read)
    block = _block(read, kind)
    spec = WorkloadSpec(
        kind=kind,
        offer=_matching(read, "offer", OFFER, "An offer's slug, such as h100-1g-10gb."),
        image=_image(read, kind, block),
        count=read.whole("count", default=1, within=DEVICES_PER_POD),
        command=read.texts("command", **COMMAND._asdict()),
        args=read.texts("args", **ARGS._asdict()),
        env=_variables(read),
        cpu_millis=_cpu(read),
        memory_bytes=_bytes(read, "memory", default=0),
        volumes=_volumes(read, kind),
        priority=_priority(read, kind),
        suspend=read.flag("suspend"),
        max_wait_seconds=read.optional_whole("max_wait_seconds", within=WAIT_SECONDS),
        max_run_seconds=read.optional_whole("max_run_seconds", within=RUN_SECONDS),
        idle_policy=_idle(read),
        block=block,
    )
    spec = replace(spec, block=registry.of(kind).complete(block, spec))
    registry.of(kind).refuse(read, spec.block, spec)
    if problems:
        raise Invalid(problems)
    return spec


def stored(document: object) -> WorkloadSpec:
    """What `parse` makes of a stored spec. Nothing but its text decides that, so a text is parsed once in a
    process while it is among the latest; a long one every time, so that what is kept stays small.
    """
    text = orjson.dumps(document)
    return _parsed(text) if len(text) <= LONGEST_KEPT else parse(_as_made(document), passes_over=True)


@lru_cache(maxsize=2048)
def _parsed(text: bytes) -> WorkloadSpec:
    return parse(_as_made(orjson.loads(text)), passes_over=True)


def as_json(spec: WorkloadSpec) -> WorkloadSpecBody:
    """The JSON of a spec: `parse(as_json(spec)) == spec`. No field is left out; null is unset."""
    idle, own = spec.idle_policy, registry.of(spec.kind).as_json(spec.block)
    return {
        "kind": spec.kind,
        "offer": spec.offer,
        "offers": None,
        "count": spec.count,
        "image": spec.image,
        "command": list(spec.command),
        "args": list(spec.args),
        "env": dict(spec.env),
        "env_from_secrets": None,
        "cpu": quantities.format_millis(spec.cpu_millis) if spec.cpu_millis else None,
        "memory": quantities.format_bytes(spec.memory_bytes) if spec.memory_bytes else None,
        "volumes": [
            {"name": v.name, "size": quantities.format_bytes(v.size_bytes), "mount_path": v.mount_path}
            for v in spec.volumes
        ],
        "priority": spec.priority,
        "suspend": spec.suspend,
        "max_wait_seconds": spec.max_wait_seconds,
        "max_run_seconds": spec.max_run_seconds,
        "idle_policy": {"action": idle.action, "for_seconds": idle.for_seconds} if idle else None,
        **{str(kind): own if kind is spec.kind else None for kind in Kind},
    }


def kept(spec: WorkloadSpec) -> dict[str, Any]:
    """The JSON of a spec as a row keeps it: `stored(kept(spec)) == spec` of one that is not suspended.

    RULE: what its kind's block leaves unset is left out, and fields that are not known are passed over when
    it is read: while an installation is upgraded, the release before reads what this one writes.
    """
    document: dict[str, Any] = {**as_json(replace(spec, suspend=False))}
    block = document[spec.kind]
    return {**document, str(spec.kind): {key: value for key, value in block.items() if value is not None}}


def _as_made(document: Any) -> Any:
    """A stored spec in today's words: blocks of before are read as their kind says."""
    if not isinstance(document, dict):
        return document
    blocks = {kind: document[kind] for kind in Kind if isinstance(document.get(kind), dict)}
    return {**document, **{str(kind): registry.of(kind).as_made(block) for kind, block in blocks.items()}}


def _kind(read: Reader) -> Kind:
    value = read.text("kind", longest=16)
    if value in set(Kind):
        return Kind(value)
    if value:
        read.refuse("kind", f"One of {', '.join(registry.in_order())}.")
    return registry.in_order()[0]


def _priority(read: Reader, kind: Kind) -> Priority:
    value = read.text("priority", default=str(registry.of(kind).priority), longest=16)
    if value in set(Priority):
        return Priority(value)
    read.refuse("priority", f"One of {', '.join(Priority)}.")
    return registry.of(kind).priority


def _idle(read: Reader) -> IdleWish | None:
    if not read.has("idle_policy"):
        return None
    part = read.part("idle_policy")
    part.only({"action", "for_seconds"})
    seconds = part.optional_whole("for_seconds", within=OWN_IDLE_SECONDS)
    action = part.text("action", longest=16)
    if action in set(IdleAction):
        return IdleWish(IdleAction(action), seconds)
    if action:
        part.refuse("action", f"One of {', '.join(IdleAction)}.")
    return None


def _block(read: Reader, kind: Kind) -> Block:
    for other in Kind:
        if other is not kind and read.has(str(other)):
            read.refuse(str(other), f"Only a {other} has this block; kind is {kind}.")
    return registry.of(kind).parse(read.part(str(kind)))


def _image(read: Reader, kind: Kind, block: Block) -> str:
    usual = registry.of(kind).image
    default = usual(block) if usual else None
    value = read.text("image", default=default)
    found = IMAGE.fullmatch(value)
    if value and not found:
        read.refuse("image", "An image reference, such as registry.example/team/image:1.")
    elif found and found["host"] and _is_link_local(found["host"]):
        read.refuse("image", "A link-local address cannot be a registry.")
    return value


def _is_link_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_link_local
    except ValueError:
        return False  # a name: the node resolves it, and the network policy decides


def _matching(read: Reader, key: str, pattern: re.Pattern[str], detail: str) -> str:
    value = read.text(key)
    if value and not pattern.fullmatch(value):
        read.refuse(key, detail)
    return value


def _variables(read: Reader) -> dict[str, str]:
    part = read.part("env")
    if len(part.fields) > MOST_VARIABLES:
        read.refuse("env", f"At most {MOST_VARIABLES} variables.", code="out_of_range")
        return {}
    for name, value in part.fields.items():
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            part.refuse(str(name), "A name of letters, digits and _, not starting with a digit.")
        elif name.upper().startswith(FORBIDDEN_VARIABLES):
            part.refuse(name, f"Only the platform sets {name}.", code="reserved_name")
        elif problem := wrong_text(value, longest=32_768):
            part.refuse(name, problem)
    return dict(part.fields)


def _cpu(read: Reader) -> int:
    if not read.has("cpu"):
        return 0
    try:
        millis = quantities.cpu_millis(_quantity_text(read, "cpu"))
    except ValueError as error:
        read.refuse("cpu", str(error))
        return 0
    if not 1 <= millis <= MOST_CPU_MILLIS:
        read.refuse("cpu", f"From 1m to {MOST_CPU_MILLIS // 1000}.", code="out_of_range")
    return millis


def _bytes(read: Reader, key: str, *, default: int) -> int:
    if not read.has(key):
        return default
    try:
        size = quantities.memory_bytes(_quantity_text(read, key))
    except ValueError as error:
        read.refuse(key, str(error))
        return default
    if not MEBIBYTE <= size <= MOST_BYTES:
        read.refuse(key, "From 1Mi to 1Pi.", code="out_of_range")
    return size


def _quantity_text(read: Reader, key: str) -> str:
    value = read.fields[key]
    if not isinstance(value, str):
        raise ValueError('A Kubernetes quantity in quotes, such as "16Gi" or "2".')  # noqa: TRY004 - one refusal for all
    return value


def _volumes(read: Reader, kind: Kind) -> tuple[Volume, ...]:
    if not read.has("volumes"):
        return registry.of(kind).volumes
    found: list[Volume] = []
    for index, document in enumerate(read.items("volumes", most=MOST_VOLUMES)):
        part = read.part_at("volumes", index, document)
        part.only({"name", "size", "mount_path"})
        volume = Volume(
            name=_matching(part, "name", VOLUME, "Up to 20 of a-z, 0-9 and -, starting with a letter."),
            size_bytes=_bytes(part, "size", default=0),
            mount_path=_mount(part),
        )
        if not part.has("size"):
            part.refuse("size", "size is required.", code="required")
        if volume.name in {v.name for v in found} | {"shm"}:
            part.refuse("name", "Give each volume its own name; shm is taken.")
        if volume.mount_path in {v.mount_path for v in found}:
            part.refuse("mount_path", "Give each volume its own path.")
        found.append(volume)
    return tuple(found)


def _mount(read: Reader) -> str:
    path = read.text("mount_path")
    wrong = not MOUNT.fullmatch(path) or {".", ".."} & set(path.split("/"))
    if path and wrong:
        read.refuse("mount_path", "An absolute path, such as /data.")
    elif any(path == taken or path.startswith(f"{taken}/") for taken in FORBIDDEN_MOUNTS):
        read.refuse("mount_path", f"{path} belongs to the system.", code="reserved_name")
    return path
