"""Checks of options: a known word, a lowest value, heads that divide a width."""

from collections.abc import Sequence


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ValueError if a value is not among the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}, expected {'|'.join(choices)}")


def check_least(least: float, **values: float) -> None:
    """Raise ValueError if a value is below the least, or not a number."""
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"{name} {value}, expected at least {least}")


def check_heads(embed_dim: int, number: int, parts: str = "heads") -> None:
    """Raise ValueError if heads, or other parts, do not divide a width of at least 1."""
    if number < 1 or embed_dim < 1 or embed_dim % number:
        raise ValueError(f"embed_dim {embed_dim} is not a multiple of {number} {parts}")
