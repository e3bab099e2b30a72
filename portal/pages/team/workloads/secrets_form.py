"""The secrets of a workload that is about to be made. They go with the last step alone: the steps before
carry what was typed in their addresses.
"""

from collections.abc import Sequence

from django import forms

from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.rules import wishes as rules


class SecretsForm(forms.Form):
    """Variables, one a line; never shown again, not even after a refusal."""

    secrets = forms.CharField(
        label="Variables that nobody sees",
        required=False,
        max_length=rules.MOST_SECRETS * 1024,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
        help_text="One a line, such as HF_TOKEN=... They are sealed and shown to nobody. "
        "Files are set on its page once it is made; values of several lines, over REST.",
    )
    wishes: tuple[SecretWish, ...] = ()

    def clean_secrets(self) -> str:
        """Read the lines; no refusal repeats one."""
        lines = [line for line in str(self.cleaned_data["secrets"]).splitlines() if line.strip()]
        pairs = [line.partition("=") for line in lines]
        if any(not sign for _, sign, _ in pairs):
            raise forms.ValidationError("Each line is NAME=value.")
        self.wishes = tuple(SecretWish(name.strip(), Into.ENV, value) for name, _, value in pairs)
        wrong = rules.problems_of_all(self.wishes)
        if wrong:
            raise forms.ValidationError([_told(problem.pointer, problem.detail) for problem in wrong])
        return ""

    def __init__(self, *args: object, taken: Sequence[str] = (), **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.fields["secrets"].widget.format_value = lambda _: ""
        if taken:
            self.fields["take"] = forms.BooleanField(
                label=f"Take along {', '.join(taken)}",
                required=False,
                initial=True,
                help_text="One that is typed above goes before its old value.",
            )


def _told(pointer: str, detail: str) -> str:
    steps = pointer.split("/")
    return f"Line {int(steps[2]) + 1}: {detail}" if len(steps) > 2 else detail
