"""The form of work without a GPU: it asks for cores and memory, and for no devices."""

from apps.cluster.objects import quantities
from apps.quotas.models import Offer
from portal.pages.team.workloads.workload_forms import WorkloadForm


def ask_for_cores(form: WorkloadForm, offer: Offer) -> None:
    """Take the devices out of the form of an offer that has none, and say what comes with a core."""
    memory = quantities.format_bytes(offer.memory_bytes)
    del form.fields["count"]
    form.fields["cpu"].help_text = "Whole cores. Empty: 1, or as many as the memory needs."
    form.fields["memory"].help_text = f"At most {memory} per core. Empty: all of it."
