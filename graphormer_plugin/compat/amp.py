"""fairseq's ``--amp``, with gradients that are divided by the scale of the loss once."""

from fairseq.optim import AMPOptimizer


def unscale_once(self: AMPOptimizer) -> None:
    """The step of `AMPOptimizer`, with the optimizer of torch.

    fairseq clips the gradients of the optimizer of torch and then steps with the wrapper
    around it. torch's scaler takes the two for different optimizers and divides the
    gradients twice: Adam's epsilon stops the training as the scale grows.
    """
    self.scaler.step(self.optimizer)
    self.scaler.update()
