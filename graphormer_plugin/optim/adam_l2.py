"""Adam with an L2 penalty in the gradient."""

from typing import Any

import torch
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig


@register_optimizer("adam_l2", dataclass=FairseqAdamConfig)
class AdamL2(FairseqAdam):
    """`torch.optim.Adam`: `--weight-decay` times the weights joins the gradient. In
    fairseq's `adam` it does not, but shrinks the weights (AdamW). The released code of
    PNA trains so."""

    supports_flat_params = True  # of --fp16; each weight has its own step

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        FairseqOptimizer.__init__(self, cfg)
        self._optimizer = torch.optim.Adam(params, **self.optimizer_config)
