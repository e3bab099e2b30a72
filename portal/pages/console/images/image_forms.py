"""The forms of the console's pages of images. The rules are in the services."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from apps.cluster.objects import quantities
from apps.tenants.models import Tenant
from apps.workloads.images.services.keeping import ImageWish
from apps.workloads.models import Image
from apps.workloads.specs import ImageLimits, ImagesAllowed, Kind
from portal.pages.parts.forms import PLAIN, SHORT, OnceForm, to_choose

MOST_BYTES = 1024**4


class ImageForm(OnceForm):
    """An entry of the catalogue."""

    name = forms.CharField(
        max_length=120, help_text='As people choose it, such as "PyTorch 2.6, JupyterLab".'
    )
    reference = forms.CharField(
        max_length=255,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="By digest (name@sha256:…) it is the same for everybody for ever; by tag it may change.",
    )
    description = forms.CharField(
        label="What it is for", required=False, max_length=500, widget=forms.Textarea(attrs={"rows": 2})
    )
    cuda_version = forms.CharField(
        label="CUDA", required=False, max_length=8, widget=forms.TextInput(attrs=SHORT),
        help_text="Such as 12.4. Empty: none.",
    )  # fmt: skip
    size = forms.CharField(
        required=False, max_length=40, widget=forms.TextInput(attrs=SHORT),
        help_text="As it is pulled, such as 4Gi. Empty: unknown.",
    )  # fmt: skip
    kinds = forms.MultipleChoiceField(
        label="For", choices=Kind.choices(), initial=list(Kind), widget=forms.CheckboxSelectMultiple
    )
    tenants = forms.MultipleChoiceField(
        label="Tenants", required=False, widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="None chosen: every tenant.",
    )  # fmt: skip

    def __init__(self, tenants: Iterable[Tenant], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by_slug = {tenant.slug: tenant for tenant in tenants}
        self.fields["tenants"].choices = to_choose(self.by_slug.values())  # type: ignore[attr-defined]

    @classmethod
    def of(
        cls, image: Image, named: Iterable[Tenant], tenants: Iterable[Tenant], data: Mapping[str, Any] | None
    ) -> "ImageForm":
        """The form with the entry's present values."""
        kept = {
            "name": image.name,
            "reference": image.reference,
            "description": image.description,
            "cuda_version": image.cuda_version,
            "size": quantities.format_bytes(image.size_bytes) if image.size_bytes else "",
            "kinds": image.kinds,
            "tenants": [tenant.slug for tenant in named],
        }
        return cls([*tenants, *named], data, initial=kept)

    def clean_size(self) -> int | None:
        """As people type it."""
        text = self.cleaned_data["size"]
        try:
            size = quantities.memory_bytes(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None
        if size is not None and not 0 < size <= MOST_BYTES:
            raise forms.ValidationError("More than 0, and at most 1Ti.")
        return size

    def wish(self) -> ImageWish:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        named = tuple(self.by_slug[slug] for slug in typed["tenants"])
        return ImageWish(
            name=typed["name"],
            reference=typed["reference"].strip(),
            description=typed["description"],
            size_bytes=typed["size"],
            cuda_version=typed["cuda_version"].strip(),
            kinds=tuple(Kind(kind) for kind in typed["kinds"]),
            tenants=named or None,
        )


class RuleForm(OnceForm):
    """Which images may be used besides the catalogue. A tenant may have no rule of its own."""

    allowed = forms.ChoiceField(label="Besides the catalogue", widget=forms.RadioSelect)
    prefixes = forms.CharField(
        label="Registries", required=False, max_length=10_000,
        widget=forms.Textarea(attrs=PLAIN | {"rows": 4}),
        help_text="One per line, such as quay.io/jupyter. They count with listed registries alone.",
    )  # fmt: skip

    def __init__(self, *args: Any, is_own: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        usual = [("", "As the installation says")] if is_own else []
        self.fields["allowed"].required = not is_own
        self.fields["allowed"].choices = [*usual, *ImagesAllowed.choices()]  # type: ignore[attr-defined]

    @classmethod
    def of(cls, limits: ImageLimits | None, data: Mapping[str, Any] | None, *, is_own: bool) -> "RuleForm":
        """The form with what holds now."""
        kept = {"allowed": str(limits.allowed), "prefixes": "\n".join(limits.prefixes)} if limits else {}
        return cls(data, initial=kept or {"allowed": ""}, is_own=is_own)

    def limits(self) -> ImageLimits | None:
        """What is asked for; None: no rule of its own."""
        typed = self.cleaned_data
        if not typed["allowed"]:
            return None
        return ImageLimits(ImagesAllowed(typed["allowed"]), tuple(typed["prefixes"].split()))
