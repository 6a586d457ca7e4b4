"""Check that an option is one of its words, and that heads divide a width."""

from collections.abc import Sequence


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ValueError where a value is not among the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}, expected {'|'.join(choices)}")


def check_heads(embed_dim: int, num_heads: int) -> None:
    """Raise ValueError where heads do not divide a width of at least 1."""
    if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
        raise ValueError(
            f"embed_dim {embed_dim} is not a multiple of {num_heads} heads"
        )
