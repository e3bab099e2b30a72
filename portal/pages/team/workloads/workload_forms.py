"""The forms of workloads. They shape what was typed into the JSON of the REST contract and hold no rule:
`parsing.parse` decides, and its problems come back to the fields they belong to.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from apps.cluster.objects import quantities
from apps.errors import Invalid
from apps.quotas.specs import Priority
from apps.ranges import RUN_SECONDS
from apps.workloads.spec import parsing
from apps.workloads.specs import HOME_VOLUME, Ide, IdleAction, Kind, Phase, WorkloadSpec

HOUR = 3600
FIELD_OF = {"max_run_seconds": "run_hours", "max_wait_seconds": "max_wait", "idle_policy": "idle_action"}
"""Which field of every form a step of a JSON pointer means, where the names differ."""
SHELL = ["sh", "-c"]
RUN_HOURS = (1, 2, 4, 8, 12, 24, 48, 72)
WAITS = (
    ("", "as long as it takes"),
    ("3600", "at most 1 hour"),
    ("28800", "at most 8 hours"),
    ("0", "not at all"),
)
IDLE_SPANS = (
    ("", "as the team's policy"),
    ("600", "10 minutes"),
    ("1800", "30 minutes"),
    ("3600", "1 hour"),
    ("14400", "4 hours"),
    ("86400", "24 hours"),
    ("259200", "72 hours"),
)
TOLD_BY_SPEC = frozenset({"cpu", "memory", "priority"})


class WorkloadForm(forms.Form):
    """What every kind asks. A subclass adds the block of its kind and says where its pointers belong."""

    kind: ClassVar[Kind]
    fields_of: ClassVar[Mapping[str, str]] = {}
    """Which field a JSON pointer's first step below /spec means, where the names differ."""

    beside: ClassVar[tuple[str, ...]] = ("count", "cpu", "memory", "run_hours", "max_wait", "priority")
    """Fields short enough to stand side by side."""

    advanced: ClassVar[tuple[str, ...]] = ("idle_action", "idle_after")
    """Fields that most people never touch: folded away."""

    name = forms.CharField(
        label="Name", required=False, help_text="How people find it, such as rag-dev. Empty: a name is made."
    )
    image = forms.CharField(label="Image", required=False)
    count = forms.CharField(label="Devices", required=False, initial="1", help_text="Of this offer.")
    cpu = forms.CharField(label="CPU cores", required=False, help_text="Empty: as the offer has.")
    memory = forms.CharField(label="Memory", required=False, help_text="16Gi. Empty: as the offer.")

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

    def __init__(self, data: Mapping[str, Any] | None = None, *, offer: str, **options: Any) -> None:
        super().__init__(data, **options)
        self.offer = offer
        self.spec: WorkloadSpec | None = None
        for name in self.beside:
            self.fields[name].widget.attrs["class"] = "short"

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

    @property
    def shown_name(self) -> str:
        """What was typed as its name; empty when one is to be made."""
        return str(self.data.get("name", "")).strip()

    def clean(self) -> dict[str, Any]:
        """Let the contract's own parser decide."""
        cleaned: dict[str, Any] = super().clean() or {}
        try:
            self.spec = parsing.parse(self.document(cleaned))
        except Invalid as refusal:
            self.take(refusal)
        return cleaned

    def document(self, cleaned: Mapping[str, str]) -> dict[str, Any]:
        """The `spec` that REST would be sent for these values; what is empty is left out."""
        return _without_empty(
            {
                "kind": str(self.kind),
                "offer": self.offer,
                "image": cleaned.get("image"),
                "count": _number(cleaned.get("count")),
                "cpu": cleaned.get("cpu"),
                "memory": cleaned.get("memory"),
                "max_run_seconds": _number(cleaned.get("run_hours"), times=HOUR),
                "max_wait_seconds": _number(cleaned.get("max_wait")),
                "priority": cleaned.get("priority"),
                "idle_policy": _without_empty(
                    {"action": cleaned.get("idle_action"), "for_seconds": _number(cleaned.get("idle_after"))}
                )
                or None,
                **self.block(cleaned),
            }
        )

    def block(self, cleaned: Mapping[str, str]) -> dict[str, Any]:
        """What only this kind has."""
        raise NotImplementedError

    def take(self, refusal: Invalid) -> None:
        """Put each problem beside the field it is about, in the words the API uses."""
        for problem in refusal.problems:
            steps = problem.pointer.lstrip("#").strip("/").split("/")
            step = steps[1] if steps[0] == "spec" and len(steps) > 1 else steps[0]
            name = self.fields_of.get(step, FIELD_OF.get(step, step))
            if name == "slug":
                name = "name"
            self.add_error(name if name in self.fields else None, problem.detail)


class NotebookForm(WorkloadForm):
    """A notebook: a disk for its home, and a time after which it stops."""

    kind = Kind.NOTEBOOK
    fields_of = {"volumes": "disk"}
    beside = (*WorkloadForm.beside, "disk")

    disk = forms.CharField(
        label="Disk",
        required=False,
        initial="10Gi",
        help_text="Your home; survives stops.",
    )
    run_hours = forms.ChoiceField(
        label="Stops after",
        required=False,
        choices=[(str(hours), f"{hours} hour{'s' if hours > 1 else ''}") for hours in RUN_HOURS],
        initial="8",
        help_text="You can extend it.",
    )
    max_wait = forms.ChoiceField(label="Wait", required=False, choices=WAITS, help_text="If nothing is free.")

    def __init__(self, data: Mapping[str, Any] | None = None, *, offer: str, **options: Any) -> None:
        super().__init__(data, offer=offer, **options)
        self.fields["image"].help_text = f"Empty: {Ide.JUPYTERLAB.image}"

    def block(self, cleaned: Mapping[str, str]) -> dict[str, Any]:
        """One volume, the home; JupyterLab."""
        size = cleaned.get("disk")
        volume = {"name": HOME_VOLUME.name, "size": size, "mount_path": HOME_VOLUME.mount_path}
        return {"volumes": [volume] if size else [], "notebook": {"ide": str(Ide.JUPYTERLAB)}}


class JobForm(WorkloadForm):
    """A job: a command that runs to its end."""

    kind = Kind.JOB
    fields_of = {"args": "command", "job": "completions"}
    beside = (*WorkloadForm.beside, "completions")

    command = forms.CharField(
        label="Command",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="It runs in sh. Empty: the image's own command.",
    )
    completions = forms.CharField(label="Runs", required=False, initial="1", help_text="One after another.")
    run_hours = forms.CharField(
        label="Stop after hours", required=False, help_text="Empty: it runs to its end."
    )
    max_wait = forms.ChoiceField(label="Wait", required=False, choices=WAITS, help_text="If nothing is free.")

    def __init__(self, data: Mapping[str, Any] | None = None, *, offer: str, **options: Any) -> None:
        super().__init__(data, offer=offer, **options)
        self.fields["image"].help_text = "Such as registry.example/team/train:1."

    def block(self, cleaned: Mapping[str, str]) -> dict[str, Any]:
        """A shell command, and how often it runs."""
        line = (cleaned.get("command") or "").replace("\r\n", "\n").strip()
        runs = _number(cleaned.get("completions"))
        return {
            "command": [*SHELL, line] if line else None,
            "job": _without_empty({"completions": runs}),
        }


FORMS: dict[Kind, type[WorkloadForm]] = {Kind.NOTEBOOK: NotebookForm, Kind.JOB: JobForm}


def typed(name: str, spec: WorkloadSpec) -> dict[str, str]:
    """What somebody would type to ask for this again; a command that is no shell line cannot be typed."""
    document, idle = parsing.as_json(spec), spec.idle_policy
    is_shell = list(spec.command[:2]) == SHELL and len(spec.command) == len(SHELL) + 1
    return _without_empty(
        {
            "name": name,
            "image": spec.image,
            "count": str(spec.count),
            "cpu": document["cpu"],
            "memory": document["memory"],
            "disk": document["volumes"][0]["size"] if document["volumes"] else "",
            "command": spec.command[-1] if is_shell else "",
            "completions": str(spec.job.completions) if spec.job else "",
            "idle_action": str(idle.action) if idle else "",
            "idle_after": str(idle.for_seconds) if idle and idle.for_seconds else "",
            "run_hours": str(spec.max_run_seconds // HOUR) if spec.max_run_seconds else "",
        }
    )


class ReasonForm(forms.Form):
    """Why it is done; kept in the audit record."""

    reason = forms.CharField(label="Reason (optional)", required=False, max_length=500)


class DeleteForm(forms.Form):
    """Whether the disks stay."""

    keep_volumes = forms.BooleanField(label="Keep its disks", required=False)


class ExtendForm(forms.Form):
    """How much longer."""

    seconds = forms.IntegerField(**RUN_SECONDS.bounds)


class FilterForm(forms.Form):
    """Filters of the list; they live in the URL. Unknown values, as in an old bookmark, are ignored."""

    phase = forms.ChoiceField(label="Status", required=False, choices=[("", "Any"), *Phase.choices()])
    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "Any"), *Kind.choices()])
    owner = forms.ChoiceField(label="Member", required=False, choices=[("", "Anybody"), ("me", "Me")])


def _number(text: str | None, *, times: int = 1) -> int | str | None:
    """A whole number where it is one; else the text as typed, for the parser to refuse in its words."""
    typed = (text or "").strip()
    return int(typed) * times if typed.isascii() and typed.isdigit() and len(typed) < 10 else typed or None


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "")}
