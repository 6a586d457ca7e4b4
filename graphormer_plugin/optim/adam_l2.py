"""Adam with an L2 penalty in the gradient."""

from typing import Any

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdamConfig

from graphormer_plugin.optim.adamw import AdamW


@register_optimizer("adam_l2", dataclass=FairseqAdamConfig)
class AdamL2(AdamW):
    """`torch.optim.Adam`, which adds `--weight-decay` times the weights to the gradient, as
    in PNA's released code. fairseq's `adam` shrinks the weights instead (AdamW).
    """

    @staticmethod
    def make(params: Any, **options: Any) -> torch.optim.Optimizer:
        """The optimizer of torch."""
        return torch.optim.Adam(params, fused=True, **options)
