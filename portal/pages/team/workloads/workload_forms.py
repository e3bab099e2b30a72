"""The forms of workloads. They shape what was typed into the JSON of the REST contract and hold no rule:
`parsing.parse` decides, and its problems come back to the fields they belong to.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar

from django import forms

from apps.cluster.objects import quantities
from apps.errors import Invalid
from apps.quotas.specs import Priority
from apps.web.shapes.durations import duration
from apps.workloads import registry
from apps.workloads.hours_specs import days_text
from apps.workloads.models import Image
from apps.workloads.registry import FormField, Takes
from apps.workloads.spec import parsing
from apps.workloads.specs import IdleAction, ImageLimits, ImagesAllowed, Kind, Volume, WorkloadSpec
from portal.pages.team.workloads import as_typed

FIELD_OF = {
    "max_run_seconds": "run_hours", "max_wait_seconds": "max_wait", "idle_policy": "idle_action",
    "command": "program", "volumes": "disks",
}  # fmt: skip
"""Which field of every form a step of a JSON pointer means, where the names differ."""
SHELL = ["sh", "-c"]
SHORTER, LONGEST, LONG = 40, 1000, 32 * 1024
"""Characters that are looked at at all: what a field may hold is the parser's, and is less."""
ENDS = {True: "until somebody stops it", False: "it runs to its end"}
RUN_HOURS = (1, 2, 4, 8, 12, 24, 48, 72)
WAITS = (
    ("", "as long as it takes"),
    ("3600", "at most 1 hour"),
    ("28800", "at most 8 hours"),
    ("0", "not at all"),
)
IDLE_SPANS = (
    ("", "as the team's policy"),
    ("120", "2 minutes"),
    ("600", "10 minutes"),
    ("1800", "30 minutes"),
    ("3600", "1 hour"),
    ("14400", "4 hours"),
    ("86400", "24 hours"),
    ("259200", "72 hours"),
)
READ = {
    "program": as_typed.words, "args": as_typed.words, "env": as_typed.pairs, "labels": as_typed.pairs,
    "disks": as_typed.disks,
}  # fmt: skip
"""What the fields of many lines become."""
TOLD_BY_SPEC = frozenset({"cpu", "memory", "priority"})


def _lines(label: str, about: str) -> forms.CharField:
    rows = forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "autocapitalize": "none"})
    return forms.CharField(label=label, required=False, max_length=LONG, widget=rows, help_text=about)


class WorkloadForm(forms.Form):
    """What every kind asks, and the fields that the kind declares."""

    beside: ClassVar[tuple[str, ...]] = ("count", "cpu", "memory", "run_hours", "max_wait", "priority")
    """Fields short enough to stand side by side."""

    folded: ClassVar[tuple[str, ...]] = ("idle_action", "idle_after", *READ)
    """Fields that most people never touch: folded away."""

    name = forms.CharField(
        label="Name",
        required=False,
        max_length=as_typed.LONGEST_NAME,
        help_text="How people find it, such as rag-dev. Empty: a name is made.",
    )
    image = forms.CharField(label="Image", required=False, max_length=LONGEST)
    count = forms.CharField(
        label="Devices", required=False, max_length=SHORTER, initial="1", help_text="Of this offer."
    )
    cpu = forms.CharField(
        label="CPU cores", required=False, max_length=SHORTER, help_text="Empty: as the offer has."
    )
    memory = forms.CharField(
        label="Memory", required=False, max_length=SHORTER, help_text="16Gi. Empty: as the offer."
    )

    priority = forms.ChoiceField(
        label="Priority",
        required=False,
        choices=[("", "the usual"), *Priority.choices()],
        help_text="Decides who starts first and who gives back borrowed devices.",
    )

    idle_action = forms.ChoiceField(
        label="When idle",
        required=False,
        choices=[("", "as the team's policy"), *IdleAction.choices()],
        help_text="It may be stricter than the team's policy; leads may choose freely.",
    )
    idle_after = forms.ChoiceField(label="Idle after", required=False, choices=IDLE_SPANS)
    program = _lines("Program", "Started without sh, such as python train.py. Empty: as the image does.")
    args = _lines("Arguments", "They follow the program, or the image's own.")
    env = _lines("Variables", "NAME=value, one a line. Everybody in the team sees them: no passwords here.")
    labels = _lines("Labels", "team/project=search, one a line. Lists are searched by them.")
    disks = _lines("More disks", "Name, size and path, one a line: data 100Gi /data. Each is new and empty.")

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, kind: Kind, offer: str, **options: Any
    ) -> None:
        super().__init__(data, **options)
        self.kind, self.offer = kind, offer
        self.own = registry.of(kind).fields
        self.spec: WorkloadSpec | None = None
        self.given_labels: dict[str, str] = {}
        self.zone = "UTC"
        self.fields["image"].help_text = registry.of(kind).image_hint
        for field in self.own:
            self.fields[field.name] = _field(field)
        self.fields["run_hours"] = _run_hours(kind)
        self.fields["max_wait"] = forms.ChoiceField(
            label="Wait", required=False, choices=WAITS, help_text="If nothing is free."
        )
        for name in ("run_hours", "max_wait", "idle_after"):
            self._offer_present(name)
        if "command" in self.fields:
            self.fields["program"].help_text = "Instead of Command: started without sh."
        self.advanced = (*(field.name for field in self.own if field.is_advanced), *self.folded)
        for name in (*self.beside, *(field.name for field in self.own if field.is_short)):
            self.fields[name].widget.attrs["class"] = "short"

    def _offer_present(self, name: str) -> None:
        """Let a time be chosen that is there already, such as one that REST set."""
        field, there = self.fields[name], str((self.data or self.initial).get(name) or "")
        choices: list[Any] = list(getattr(field, "choices", ()))
        if not isinstance(field, forms.ChoiceField) or there in dict(choices):
            return
        span = as_typed.seconds(there if name == "run_hours" else f"{there}s")
        if isinstance(span, int):
            field.choices = [*choices, (there, duration(span))]

    @cached_property
    def field_at(self) -> dict[str, str]:
        """Which field a place in the spec means, where the names differ; the block itself is its first."""
        at = {field.at: field.name for field in self.own}
        first = next((field.name for field in self.own if field.at.startswith(f"{self.kind}/")), "")
        return {**FIELD_OF, str(self.kind): first, **at}

    @property
    def usual_fields(self) -> list[forms.BoundField]:
        """What everybody fills in."""
        return [field for field in self.visible_fields() if field.name not in self.advanced]

    @property
    def advanced_fields(self) -> list[forms.BoundField]:
        """What is folded away."""
        return [self[name] for name in self.advanced]

    @property
    def told_fields(self) -> list[forms.BoundField]:
        """What was filled in, as the review lists it; what the spec itself tells is left out."""
        return [field for field in self.visible_fields() if field.data and field.name not in TOLD_BY_SPEC]

    @property
    def is_advanced(self) -> bool:
        """Whether something folded away was filled in, or is wrong."""
        return any(field.value() or field.errors for field in self.advanced_fields)

    def tell_defaults(self, *, cpu_millis: int, memory_bytes: int) -> None:
        """Say what comes with each device of the offer where nothing is typed."""
        cores, memory = quantities.format_millis(cpu_millis), quantities.format_bytes(memory_bytes)
        whole = f"{cpu_millis // 1000}" if cpu_millis % 1000 == 0 else cores
        self.fields["cpu"].help_text = f"Empty: {whole} per device."
        self.fields["memory"].help_text = f"16Gi. Empty: {memory} per device."

    def offer_images(self, listed: Sequence[Image], limits: ImageLimits) -> None:
        """Let an image of the catalogue be chosen; another is typed where the limits let one."""
        if not listed:
            return
        others = limits.allowed is not ImagesAllowed.CATALOGUE
        choices = [(image.reference, _told(image)) for image in listed]
        if others:
            choices.append(("", "Another image"))
            below = f", below {', '.join(limits.prefixes)}" if limits.prefixes else ""
            self.fields["image"].label = "Another image"
            usual = self.fields["image"].help_text
            self.fields["image"].help_text = f"After Another image was chosen{below}. {usual}"
        else:
            del self.fields["image"]
        given = self.initial.get("image", "")
        known = {image.reference for image in listed}
        chosen = given if given in known else "" if given and others else listed[0].reference
        kept = {"listed": self.initial.get("listed", chosen), "image": "" if given in known else given}
        self.initial = {**self.initial, **kept}
        self.fields["listed"] = forms.ChoiceField(label="Image", required=False, choices=choices)
        self.order_fields(["name", "listed", "image"])

    def tell_zone(self, zone: str) -> None:
        """Say on whose clock working hours are where no time zone is typed."""
        if "hours_zone" in self.fields:
            self.zone = zone
            self.fields["hours_zone"].help_text = f"Such as Europe/Berlin. Empty: {zone}."

    @property
    def shown_name(self) -> str:
        """What was typed as its name; empty when one is to be made."""
        return str(self.data.get("name", "")).strip()

    def clean(self) -> dict[str, Any]:
        """Let the contract's own parser decide."""
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("listed") and cleaned.get("image"):
            self.add_error("image", "Choose Another image above, or leave this empty.")
        if cleaned.get("command") and cleaned.get("program"):
            self.add_error("program", "Fill in Command or this, not both.")
        if cleaned.get("days") and not cleaned.get("hours_zone"):
            cleaned["hours_zone"] = self.zone
        read = {name: self._read(name, cleaned.get(name)) for name in READ}
        self.given_labels = read["labels"] or {}
        try:
            self.spec = parsing.parse(self.document(cleaned, read))
        except Invalid as refusal:
            self.take(refusal)
        return cleaned

    def _read(self, name: str, text: str | None) -> Any:
        try:
            return READ[name](text) if text else None
        except ValueError as wrong:
            self.add_error(name, str(wrong))
            return None

    def document(self, cleaned: Mapping[str, str], read: Mapping[str, Any]) -> dict[str, Any]:
        """The `spec` that REST would be sent for these values; what is empty is left out."""
        own, after = self.block(cleaned), as_typed.number(cleaned.get("idle_after"))
        idle = _without_empty({"action": cleaned.get("idle_action"), "for_seconds": after})
        if read["disks"]:
            own["volumes"] = [*own.get("volumes", ()), *read["disks"]]
        return _without_empty(
            {
                "kind": str(self.kind),
                "offer": self.offer,
                "command": read["program"],
                "args": read["args"],
                "env": read["env"],
                "image": cleaned.get("listed") or cleaned.get("image"),
                "count": as_typed.number(cleaned.get("count")),
                "cpu": cleaned.get("cpu"),
                "memory": cleaned.get("memory"),
                "max_run_seconds": as_typed.seconds(cleaned.get("run_hours")),
                "max_wait_seconds": as_typed.number(cleaned.get("max_wait")),
                "priority": cleaned.get("priority"),
                "idle_policy": idle or None,
                **own,
            }
        )

    def block(self, cleaned: Mapping[str, str]) -> dict[str, Any]:
        """What the kind's own fields ask for, each at its place; its block is there in any case."""
        found: dict[str, Any] = {str(self.kind): {}}
        for field in self.own:
            if field.unless and cleaned.get(field.unless):
                continue
            value = _typed_at(field, cleaned.get(field.name))
            *parts, name = field.at.split("/")
            if value not in (None, ""):
                reduce(lambda inside, part: inside.setdefault(part, {}), parts, found)[name] = value
        return found

    def take(self, refusal: Invalid) -> None:
        """Put each problem beside the field it is about, in the words the API uses."""
        for problem in refusal.problems:
            steps = problem.pointer.lstrip("#").strip("/").split("/")
            name = self._field_of(steps[1:] if steps[0] == "spec" and len(steps) > 1 else steps)
            if name == "slug":
                name = "name"
            if name == "command" and self.data.get("program"):
                name = "program"
            if name == "image" and "listed" in self.fields and not self.data.get("image"):
                name = "listed"
            self.add_error(name if name in self.fields else None, problem.detail)

    def _field_of(self, steps: Sequence[str]) -> str:
        """The field of a problem below /spec: of the innermost step that has one. The kind's own disk comes
        first among the volumes, the others after it.
        """
        own = self.field_at.get("volumes", "disks")
        if steps[0] == "volumes" and (not self.data.get(own) or steps[1:2] not in ([], ["0"])):
            return "disks"
        places = ("/".join(steps[:many]) for many in (len(steps), 2))
        inner = next((self.field_at[at] for at in places if at in self.field_at), "".join(steps[1:2]))
        first = self.field_at.get(steps[0], steps[0])
        return inner if inner in self.fields and steps[0] == str(self.kind) else first


def _field(of: FormField) -> forms.Field:
    words: dict[str, Any] = {
        "label": of.label, "required": False, "help_text": of.help, "initial": of.initial or None,
    }  # fmt: skip
    if of.takes is Takes.CHOICE:
        return forms.ChoiceField(choices=of.choices, **words)
    if of.takes is Takes.SHELL:
        words["widget"] = forms.Textarea(attrs={"rows": 3})
    return forms.CharField(max_length=of.longest, **words)


def _run_hours(kind: Kind) -> forms.Field:
    if not registry.of(kind).is_leased:
        return forms.CharField(
            label="Stop after hours",
            required=False,
            max_length=SHORTER,
            help_text=f"Such as 8 or 90m. Empty: {ENDS[registry.of(kind).begins_again]}.",
        )
    return forms.ChoiceField(
        label="Stops after",
        required=False,
        choices=[(str(hours), f"{hours} hour{'s' if hours > 1 else ''}") for hours in RUN_HOURS],
        initial="8",
        help_text="You can extend it.",
    )


def _typed_at(of: FormField, typed: str | None) -> Any:
    """What of the request the text of a field becomes; None where it says nothing."""
    if of.takes is Takes.NUMBER:
        return as_typed.number(typed)
    text = (typed or "").replace("\r\n", "\n").strip()
    if of.takes is Takes.SHELL:
        return [*SHELL, text] if text else None
    if of.takes is Takes.DAYS:
        return as_typed.days(text) or None
    if of.takes is Takes.CLOCK:
        return as_typed.clock(text)
    if of.takes is Takes.DISK:
        disk = of.volume
        return [{"name": disk.name, "size": text, "mount_path": disk.mount_path}] if disk and text else []
    return text


def typed(name: str, spec: WorkloadSpec, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """What somebody would type to ask for this again: the form makes the same request of it."""
    document, idle, of = parsing.as_json(spec), spec.idle_policy, registry.of(spec.kind)
    own = {field.name: _shown(field, document) for field in of.fields}
    kept = next((field.volume for field in of.fields if field.takes is Takes.DISK), None)
    more = [each for each in document["volumes"] if kept is None or not _is(each, kept)]
    return {
        "name": name,
        "image": spec.image,
        "count": str(spec.count),
        "cpu": document["cpu"] or "",
        "memory": document["memory"] or "",
        **own,
        "program": "" if own.get("command") else as_typed.words_shown(spec.command),
        "args": as_typed.words_shown(spec.args),
        "env": as_typed.pairs_shown(spec.env),
        "labels": as_typed.pairs_shown(labels or {}),
        "disks": as_typed.disks_shown(more),
        "priority": "" if spec.priority is of.priority else str(spec.priority),
        "idle_action": str(idle.action) if idle else "",
        "idle_after": str(idle.for_seconds) if idle and idle.for_seconds else "",
        "run_hours": as_typed.seconds_shown(spec.max_run_seconds),
        "max_wait": "" if spec.max_wait_seconds is None else str(spec.max_wait_seconds),
    }


def _is(volume: Mapping[str, Any], of: Volume) -> bool:
    return (volume["name"], volume["mount_path"]) == (of.name, of.mount_path)


def _shown(of: FormField, document: Mapping[str, Any]) -> str:
    """The value of a request as it would be typed; empty where it is what nothing typed means."""
    value: Any = document
    for step in of.at.split("/"):
        value = None if value is None else value[step]
    if of.takes is Takes.DAYS:
        return days_text(value or ())
    if of.usual and value == of.usual(document):
        return ""
    if of.takes is Takes.SHELL:
        is_shell = value[:2] == SHELL and len(value) == len(SHELL) + 1 and value[-1] == value[-1].strip()
        return str(value[-1]) if is_shell else ""
    if of.takes is Takes.DISK:
        return next((str(each["size"]) for each in value if of.volume and _is(each, of.volume)), "")
    return "" if value is None else str(value)


def _told(image: Image) -> str:
    """An image of the catalogue as the choice names it."""
    parts = [
        f"CUDA {image.cuda_version}" if image.cuda_version else "",
        quantities.format_bytes(image.size_bytes) if image.size_bytes else "",
    ]
    more = ", ".join(filter(None, parts))
    return f"{image.name} ({more})" if more else image.name


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "")}
