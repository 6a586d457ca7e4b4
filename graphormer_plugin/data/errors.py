"""Errors of the data layer. Each carries one line that a user can act on."""


class DatasetError(ValueError):
    """A source cannot be read as asked; names file, row and column where known."""


class WorkerError(DatasetError):
    """A process that prepares data died; what is finished stays, to go on later."""


class StoreError(ValueError):
    """A folder is no graph store that may be read; names the folder and why."""
