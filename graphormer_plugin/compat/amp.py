"""fairseq's ``--amp``, with gradients that are divided by the scale of the loss once."""

from fairseq.optim import AMPOptimizer


def unscale_once(self: AMPOptimizer) -> None:
    """The step of `AMPOptimizer`, with the optimizer of torch.

    Clipping divides the gradients of the optimizer of torch, fairseq's step then those of
    the wrapper around it. torch's scaler takes the two for different optimizers, so they
    were divided twice, and Adam's epsilon stopped the training as the scale grew.
    """
    self.scaler.step(self.optimizer)
    self.scaler.update()
