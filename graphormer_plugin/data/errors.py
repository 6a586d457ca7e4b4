"""Errors of the data layer. Each carries one line that a user can act on."""


class DatasetError(ValueError):
    """A source cannot be read as asked; names file, row and column where known."""


class WorkerError(DatasetError):
    """A process that prepares data died; finished parts stay for the next attempt."""


class StoreError(ValueError):
    """A folder is not a readable graph store; names the folder and the reason."""


class NewerStoreError(StoreError):
    """A store of a newer version of this package, which must not be replaced."""


def counted(count: int, noun: str) -> str:
    """A number of things in a message.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of this machine, not of a GPU, was not enough."""
    # torch has no class of its own for it.
    text = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in text
