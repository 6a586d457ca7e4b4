"""fairseq's ``--amp``, with gradients that are divided by the scale of the loss once."""

from fairseq.optim import AMPOptimizer


def unscale_once() -> None:
    """Replace the step of fairseq's `AMPOptimizer`.

    Clipping divides the gradients of the optimizer of torch, fairseq's step then those of
    the wrapper around it. torch's scaler takes the two for different optimizers, so they
    were divided twice, and Adam's epsilon stopped the training as the scale grew.
    """
    AMPOptimizer.step = _step


def _step(self: AMPOptimizer) -> None:
    self.scaler.step(self.optimizer)
    self.scaler.update()
