"""From what somebody says to a need, or to what is wrong with it; the same for REST and the page. Pure."""

from dataclasses import dataclass
from decimal import Decimal

from apps.cluster.objects import quantities
from apps.errors import FieldProblem, Invalid
from apps.workloads import registry
from apps.workloads.advice.rules import models
from apps.workloads.advice.rules.models import WEIGHT_BYTES, Model, Precision, Task
from apps.workloads.advice.rules.situations import USUAL_SECONDS, Need
from apps.workloads.specs import Kind

MEMORY_BYTES = (2**20, 2**50)
"""The least and the most GPU memory that can be asked about: 1 MiB and 1 PiB."""


@dataclass(frozen=True)
class ModelWish:
    """A model as it is named: billions of parameters, precision, what is done with it."""

    billions: Decimal
    precision: Precision
    task: Task


@dataclass(frozen=True)
class NeedWish:
    """What was said. `gpu_memory` is a quantity such as 20Gi; exactly one of it and `model` is there."""

    kind: Kind
    gpu_memory: str = ""
    model: ModelWish | None = None
    at_once: int = 1
    for_seconds: int = USUAL_SECONDS
    may_be_interrupted: bool = False
    isolated: bool = False
    cheap_first: bool = False


def need_of(wish: NeedWish) -> Need:
    """The need; raises Invalid with every problem."""
    model, memory, definition = _model(wish.model), _memory(wish.gpu_memory), registry.of(wish.kind)
    if bool(wish.gpu_memory) == (wish.model is not None):
        words = "Say how much GPU memory, or which model: one of the two."
        raise Invalid([FieldProblem("/gpu_memory", "invalid_value", words)])
    if wish.at_once > definition.at_once.most:
        words = f"A {wish.kind.label.lower()} has at most {definition.at_once.most} {definition.several}."
        raise Invalid([FieldProblem("/at_once", "out_of_range", words)])
    return Need(
        purpose=definition.purpose,
        memory_bytes=model.memory_bytes if model else memory,
        at_once=wish.at_once,
        seconds=wish.for_seconds,
        may_be_interrupted=wish.may_be_interrupted,
        is_alone=wish.isolated,
        is_thrifty=wish.cheap_first,
        model=model,
    )


def how_much(model: Model) -> str:
    """How the memory of a model was counted, in a sentence with its figures."""
    shown = quantities.shown_bytes
    state = f", {shown(model.state_bytes)} that training keeps" if model.state_bytes else ""
    each = f"{WEIGHT_BYTES[model.precision].normalize():f} bytes for each parameter"
    weights = f"{shown(model.weights_bytes)} of weights ({each})"
    return f"About {shown(model.memory_bytes)}: {weights}{state}, and a fifth on top."


def _memory(text: str) -> int:
    if not text:
        return 0
    least, most = MEMORY_BYTES
    try:
        found = quantities.memory_bytes(text)
    except ValueError:
        words = "Not a quantity of memory, such as 20Gi."
        raise Invalid([FieldProblem("/gpu_memory", "invalid_value", words)]) from None
    if not least <= found <= most:
        raise Invalid([FieldProblem("/gpu_memory", "out_of_range", "From 1Mi to 1Pi, such as 20Gi.")])
    return found


def _model(wish: ModelWish | None) -> Model | None:
    if wish is None:
        return None
    least, most = models.PARAMETERS
    if not least <= wish.billions <= most:
        words = f"From {least} to {most} billion parameters."
        raise Invalid([FieldProblem("/model/billions", "out_of_range", words)])
    if not models.is_trainable(wish.task, wish.precision):
        words = f"{wish.precision.label} are not trained themselves: take LoRA, or bf16."
        raise Invalid([FieldProblem("/model/precision", "invalid_value", words)])
    return Model(wish.billions, wish.precision, wish.task)
