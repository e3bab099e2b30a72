"""How much GPU memory a model needs, from its size, its precision and what is done with it. Pure.

A rule of thumb that is right to about a fifth: what is really needed depends on batch, sequence length and
program, and only a run tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from apps.words import Word


class Precision(Word):
    """In what the weights are held."""

    FP32 = "fp32", "32 bits (fp32)"
    BF16 = "bf16", "16 bits (bf16, fp16)"
    INT8 = "int8", "8 bits (int8, fp8)"
    INT4 = "int4", "4 bits (int4, nf4)"


class Task(Word):
    """What is done with the model."""

    INFERENCE = "inference", "Let it answer"
    LORA = "lora", "Fine-tune with LoRA"
    FULL = "full", "Fine-tune all of it"


WEIGHT_BYTES: Mapping[Precision, Decimal] = {
    Precision.FP32: Decimal(4),
    Precision.BF16: Decimal(2),
    Precision.INT8: Decimal(1),
    Precision.INT4: Decimal("0.5"),
}
"""Of one parameter: its bits, an eighth of them."""
TRAINED_BYTES = Decimal(16)
"""Of each parameter that is trained with Adam. Mixed precision: weight 2, gradient 2, and in 32 bits a copy
4, momentum 4, variance 4. In 32 bits alone: weight 4, gradient 4, momentum 4, variance 4. Source: Rajbhandari
and others, ZeRO (2020), section 3.1.
"""
ADAPTERS = Decimal("0.01")
"""The part of the parameters that LoRA (Hu and others, 2021) trains beside the frozen weights. Our own
figure: rank 16 in every linear layer of a model of 7 billion is 40 million, 0.6 %.
"""
ALLOWANCE = Decimal("1.2")
"""For activations, the KV cache and what the program itself holds. Source: the usual fifth on top for
inference (EleutherAI, Transformer Math 101). For training it supposes activation checkpointing and a small
batch.
"""
PARAMETERS = (Decimal("0.01"), Decimal(2000))
"""The least and the most, in billions."""


@dataclass(frozen=True)
class Model:
    """A model and what is done with it."""

    billions: Decimal
    precision: Precision
    task: Task

    @property
    def weights_bytes(self) -> int:
        """What its weights take."""
        return _whole(self._parameters * WEIGHT_BYTES[self.precision])

    @property
    def state_bytes(self) -> int:
        """What is kept beside the weights, to train: gradients and the optimizer's state."""
        if self.task is Task.INFERENCE:
            return 0
        if self.task is Task.LORA:
            return _whole(self._parameters * ADAPTERS * TRAINED_BYTES)
        return _whole(self._parameters * (TRAINED_BYTES - WEIGHT_BYTES[self.precision]))

    @property
    def memory_bytes(self) -> int:
        """RULE: weights and what training keeps, and a fifth on top."""
        return _whole((self.weights_bytes + self.state_bytes) * ALLOWANCE)

    @property
    def _parameters(self) -> Decimal:
        return self.billions * 10**9


def is_trainable(task: Task, precision: Precision) -> bool:
    """Whether that is done with weights of this precision: what is rounded to 8 or 4 bits is not trained
    itself, only adapters beside it.
    """
    return task is not Task.FULL or precision in (Precision.FP32, Precision.BF16)


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_CEILING))
