"""Options: their fields, and checks of a known word, a lowest value, and heads."""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any


def option(default: Any, help: str, **marks: Any) -> Any:
    """Field of a dataclass of options, from which parsers make a flag.

    Args:
        help: text of the flag, with the range and the paper's symbol.
        **marks: further metadata, which the reader of the dataclass documents.
    """
    return field(default=default, metadata={"help": help, **marks})


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ValueError if a value is not among the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}, expected {'|'.join(choices)}")


class UnknownNameError(ValueError):
    """A name that nothing has here, though a module of the user may."""

    def __init__(self, kind: str, name: str, names: Iterable[str]) -> None:
        super().__init__(
            f"unknown {kind} {name!r}, expected {'|'.join(sorted(names))}; or give the folder "
            "that registers it as user_data_dir (--user-data-dir)"
        )


def at_least(least: float) -> str:
    """What is expected of a number, in messages."""
    return f"{least} or more"


def check_least(name: str, value: float | None, least: float) -> None:
    """Raise ValueError if a value is below the least, or is NaN; None is not checked."""
    if value is not None and not value >= least:
        raise ValueError(f"{name} {value}: expected {at_least(least)}")


def check_heads(embed_dim: int, number: int, parts: str = "heads") -> None:
    """Raise ValueError if heads, or other parts, do not divide a width of at least 1."""
    if number < 1 or embed_dim < 1 or embed_dim % number:
        raise ValueError(f"embed_dim {embed_dim} is not a multiple of {number} {parts}")
