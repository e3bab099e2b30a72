"""A behaviour that a namespace names holds for every pod made there afterwards: an admission step writes it
on the pod, as a cluster's injecting webhooks do.
"""

from __future__ import annotations

from sandbox.api.admission.chain import Review
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.fleet.behaviours import ANNOTATION, Behaviour

SETUP = "setup"
"""The init container that is injected where one should fail and the pod has none."""
_TAKEN_OVER = (
    "image",
    "imagePullPolicy",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
)


class NamespaceBehaviour:
    """Writes the namespace's behaviour on new pods that name none."""

    resources = frozenset({"pods"})

    def mutate(self, review: Review) -> None:
        """On creation only."""
        if review.operation != "CREATE" or review.subresource:
            return
        namespace = review.client.get("namespaces", review.namespace) or {}
        behaviour = dig(namespace, "metadata", "annotations", ANNOTATION, default="")
        named = review.obj["metadata"].get("annotations") or {}
        if not behaviour or ANNOTATION in named:
            return
        review.obj["metadata"]["annotations"] = {**named, ANNOTATION: behaviour}
        if behaviour == Behaviour.INIT_CRASH and not review.obj["spec"].get("initContainers"):
            review.obj["spec"]["initContainers"] = [_setup(review.obj["spec"]["containers"][0])]

    def validate(self, review: Review) -> None:
        """Refuses nothing."""


def _setup(beside: Obj) -> Obj:
    """An init container with the cores, memory and rights of the one beside it, without its devices."""
    resources = {
        kind: {name: amount for name, amount in amounts.items() if name in ("cpu", "memory")}
        for kind, amounts in (beside.get("resources") or {}).items()
        if kind in ("requests", "limits")
    }
    kept = {key: copy_of(beside[key]) for key in _TAKEN_OVER if key in beside}
    return {**kept, "name": SETUP, "command": ["sh", "-c", "exit 1"], "resources": resources}
