"""fairseq's schedule `reduce_lr_on_plateau`, with the same rates in a resumed training."""

from typing import Any, ClassVar

from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule


class ReduceLROnPlateau(ReduceLROnPlateauLRSchedule):
    """As fairseq's, with the same rates whether a training is interrupted or not.

    A checkpoint of fairseq's own lacks how many validations have brought no gain, and is
    saved before the schedule has seen the last one.

    Attributes:
        last_validation: metric of the validation with which the checkpoint ends that this
            process resumes; None without.
    """

    last_validation: ClassVar[float | None] = None
    _unseen: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        waited = {"num_bad_epochs": self.lr_scheduler.num_bad_epochs}
        return super().state_dict() | waited

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of a checkpoint; one of fairseq's own has not waited."""
        super().load_state_dict(state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict.get("num_bad_epochs", 0)
        self._unseen = self.last_validation

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """End an epoch; fairseq's trainer calls it without a metric when it resumes."""
        if val_loss is None:
            val_loss = self._unseen
        self._unseen = None
        return super().step(epoch, val_loss)
