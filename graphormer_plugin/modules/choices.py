"""Options that are one of a few words."""

from collections.abc import Sequence


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ValueError where a value is not one of the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}, expected {'|'.join(choices)}")
