"""Operators of a training step: on a GPU each is a launch or a few, and in small batches the
GPU waits for them.

    python examples/speed/operators.py --arch gt_zinc --size 12x768x32

Counts torch's operators below autograd in forward pass, mean absolute error, backward pass and
fused AdamW, without views and allocations. Their number does not depend on the batch, the
machine or its load. Dropout is one operator, as on a GPU. Prints one number each for float32,
autocast to bfloat16 and a model in bfloat16. Compiled attention, which only CPUs have, is one
operator: count GT and the message-passing baselines.
"""

import argparse
from functools import partial
from typing import Any

import torch
from measuring import store_collator
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from train_step import make_step, size

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.models import build_model, model_config
from graphormer_plugin.modules.layers.dropout import Dropout

ALLOCATIONS = ("empty", "_unsafe_view", "detach", "_record_function")  # beginnings
PRECISIONS = ("float32", "autocast", "bfloat16")


class OperatorCount(TorchDispatchMode):
    """Counts the operators that are called within it, in `number`."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator._schema.name.removeprefix("aten::")
        aliases = [argument.alias_info for argument in operator._schema.arguments]
        view = any(alias and not alias.is_write for alias in aliases)
        self.number += not view and not name.removeprefix("new_").startswith(
            ALLOCATIONS
        )
        return operator(*args, **(kwargs or {}))


def native_dropout(x: Tensor, p: float) -> Tensor:
    """One operator, as torch's dropout on a GPU."""
    return torch.native_dropout(x, p, True)[0]


def count_operators(arch: str, precision: str, **options: Any) -> int:
    """Operators of the second training step of a model on two `nci` molecules.

    Args:
        precision: one of `PRECISIONS`.
        **options: options of the model; those that it lacks are left out.
    """
    store = get_store(DatasetOptions(name="nci"))
    fields = vars(model_config(arch))
    options = {name: value for name, value in options.items() if name in fields}
    model = build_model(arch, store.schema, store.targets, **options)
    sample = store_collator(store, model.batch_spec)(store.splits["train"][:2])
    if precision == "bfloat16":
        model.bfloat16()
        batch = sample["net_input"]["batch"]
        for name, field in batch.items():
            if field.dtype == torch.float32:
                batch[name] = field.bfloat16()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.forward = partial(native_dropout, p=module.p)
    step = make_step(model.train(), [sample], precision == "autocast")
    step()
    with OperatorCount() as count:
        step()
    return count.number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="gt_zinc", help="default: %(default)s")
    parser.add_argument(
        "--size", type=size, default={}, metavar="LAYERSxWIDTHxHEADS", help="its size"
    )
    parser.add_argument("--dropout", type=float, default=0.1, help="everywhere")
    args = parser.parse_args()
    rates = ("dropout", "attention_dropout", "act_dropout")
    options = dict.fromkeys(rates, args.dropout) | args.size
    for precision in PRECISIONS:
        number = count_operators(args.arch, precision, **options)
        print(f"{args.arch} {precision:8} {number:6,}")


if __name__ == "__main__":
    main()
