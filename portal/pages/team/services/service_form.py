"""What is typed for another version of a service, for its tokens, and what its page shows."""

from typing import Any

from django import forms
from django.conf import settings
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import Conflict, Invalid
from apps.ranges import GENERATION, KEEP_OLD_SECONDS
from apps.workloads import policies
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import service_access
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.spec.field_reader import CONTROL
from apps.workloads.specs import Phase, WorkloadChange
from apps.workloads.status import replicas
from portal.pages.parts.forms import PLAIN, SHORT, OnceForm
from portal.pages.team.workloads import as_typed, workload_detail

LONGEST, LONG = 1000, 32 * 1024
KEPT = (("0", "It ends at once"), ("3600", "It opens for 1 hour more"), ("86400", "It opens for 1 day more"))


class VersionForm(OnceForm):
    """How many replicas, and what each of them runs. The request's own parser decides."""

    replicas = forms.CharField(max_length=40, widget=forms.TextInput(attrs=SHORT))
    image = forms.CharField(max_length=LONGEST, widget=forms.TextInput(attrs=PLAIN))
    program = forms.CharField(
        max_length=LONG, required=False, help_text="Started without sh. Empty: as the image does."
    )
    args = forms.CharField(
        label="Arguments", max_length=LONG, required=False, help_text="They follow the program."
    )
    env = forms.CharField(
        label="Variables",
        max_length=LONG,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "autocapitalize": "none"}),
        help_text="NAME=value, one a line. Everybody in the team sees them.",
    )
    health_path = forms.CharField(
        label="Health path", max_length=LONGEST, required=False, help_text="Empty: that its port answers."
    )

    generation = forms.IntegerField(required=False, **GENERATION.bounds, widget=forms.HiddenInput)

    def __init__(self, *args: Any, row: Workload, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.there = parsing.as_json(reading.spec_of(row))
        self.change = WorkloadChange()

    def clean(self) -> dict[str, Any]:
        """What is there, with these in it."""
        typed: dict[str, Any] = super().clean() or {}
        block: dict[str, Any] = {**self.there["service"]}
        block |= {
            "replicas": as_typed.number(typed.get("replicas")),
            "health_path": typed.get("health_path") or None,
        }
        wanted = {**self.there, "image": typed.get("image"), "service": block}
        for field, name, read in (
            ("program", "command", as_typed.words), ("args", "args", as_typed.words),
            ("env", "env", as_typed.pairs),
        ):  # fmt: skip
            try:
                wanted[name] = read(typed.get(field) or "")
            except ValueError as wrong:
                self.add_error(field, str(wrong))
                return typed
        try:
            self.change = WorkloadChange(spec=parsing.parse(wanted), seen=typed.get("generation"))
        except Invalid as refusal:
            self._take(refusal)
        return typed

    def _take(self, refusal: Invalid) -> None:
        """Put each problem beside its field, in the words the API uses."""
        for problem in refusal.problems:
            steps = [step for step in problem.pointer.split("/") if step not in ("", "spec", "service")]
            name = {"command": "program"}.get(steps[0], steps[0]) if steps else ""
            self.add_error(name if name in self.fields else None, problem.detail)


class TokenForm(OnceForm):
    """A token is known by its name."""

    name = forms.CharField(
        max_length=60, widget=forms.TextInput(attrs=PLAIN), help_text="The program that gets it, such as ci."
    )

    def clean_name(self) -> str:
        """As REST takes it."""
        name: str = self.cleaned_data["name"]
        if CONTROL.search(name):
            raise forms.ValidationError("Must not contain control characters.")
        return name


class RotateForm(OnceForm):
    """What becomes of the text of before."""

    keep_old_seconds = forms.TypedChoiceField(label="The text of before", choices=KEPT, coerce=int)

    def clean_keep_old_seconds(self) -> int:
        """Within what REST takes as well."""
        return KEEP_OLD_SECONDS.within(int(self.cleaned_data["keep_old_seconds"]))


def url(row: Workload, tail: str = "") -> str:
    """Where its page is."""
    return f"{reverse('workload-service', args=[row.tenant.slug, row.pk])}{tail}"


def require_service(row: Workload) -> None:
    """Raises Conflict for what is none."""
    if not service_access.takes_tokens(row):
        raise Conflict(f"A {row.kind} is no service.", hint="See its own page.")


def typed(row: Workload) -> dict[str, str]:
    """What the form begins with."""
    spec = reading.spec_of(row)
    block = parsing.as_json(spec)["service"]
    return {
        "generation": str(row.generation),
        "replicas": str(block["replicas"]),
        "image": spec.image,
        "program": as_typed.words_shown(spec.command),
        "args": as_typed.words_shown(spec.args),
        "env": as_typed.pairs_shown(spec.env),
        "health_path": block["health_path"] or "",
    }


def address(row: Workload) -> str:
    """Where programs and people reach it from outside; empty where the installation has no door."""
    return settings.CONFIG.apps.origin(row.pk) if settings.CONFIG.apps else ""


def page(actor: Actor, row: Workload) -> dict[str, Any]:
    """What the page shows, without the form."""
    frame, phase = workload_detail.frame(row), Phase(row.phase)
    alive = row.deleting_at is None and not phase.is_final
    may_operate = policies.can_operate(actor, row) and alive
    block, found = row.spec["service"], row.replicas
    return frame | {
        "tokens": list(service_access.tokens_of(row)),
        "address": address(row),
        "inside": f"http://{row.object_name}.{row.tenant.object_name}.svc:{block['port']}",
        "path": block.get("health_path") or "/",
        "replicas": found,
        "replicas_words": replicas.words(found) if phase is Phase.RUNNING else "",
        "is_rolling": phase is Phase.RUNNING and found is not None and is_rolling(found),
        "each_hourly": None if frame["hourly"] is None else frame["hourly"] / block["replicas"],
        "may_change": may_operate,
        "may_make": may_operate and policies.can_open(actor, row),
        "live_topics": [f"workload:{row.pk}"],
    }


def is_rolling(found: replicas.Replicas) -> bool:
    """Whether some replicas are not yet as asked for, or those of before still answer in place of some that
    wait. Else one that waits was taken back.
    """
    return found["updated"] < found["wanted"] or found["ready"] + found["waiting"] > found["wanted"]
