"""fairseq's schedule `reduce_lr_on_plateau`, with the same rates in a resumed training."""

from typing import Any, ClassVar

from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule


class ReduceLROnPlateau(ReduceLROnPlateauLRSchedule):
    """fairseq's schedule, with the same rates whether a training is interrupted or not.

    fairseq's checkpoints lack the number of validations without a gain, and are saved
    before the schedule has seen the last validation.
    """

    # Metric of the last validation before the checkpoint that this process resumes.
    last_validation: ClassVar[float | None] = None
    _unseen: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """State for `load_state_dict`."""
        waited = {"num_bad_epochs": self.lr_scheduler.num_bad_epochs}
        return super().state_dict() | waited

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of a checkpoint."""
        super().load_state_dict(state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict["num_bad_epochs"]
        self._unseen = self.last_validation

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """End an epoch; fairseq's trainer calls it without a metric when it resumes."""
        if val_loss is None:
            val_loss = self._unseen
        self._unseen = None
        return super().step(epoch, val_loss)
