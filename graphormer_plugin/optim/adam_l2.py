"""Adam with an L2 penalty in the gradient."""

from typing import Any

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdamConfig

from graphormer_plugin.optim.adamw import AdamW


@register_optimizer("adam_l2", dataclass=FairseqAdamConfig)
class AdamL2(AdamW):
    """`torch.optim.Adam`: `--weight-decay` times the weights is added to the gradient, as
    the released code of PNA trains; in fairseq's `adam` it shrinks the weights (AdamW).
    """

    @staticmethod
    def make(params: Any, **options: Any) -> torch.optim.Optimizer:
        """The optimizer of torch."""
        return torch.optim.Adam(params, fused=True, **options)
