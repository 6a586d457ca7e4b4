"""PyTorch's flex_attention, whose kernel computes the bias of a pair where it computes the
score: no tensor of all heads and pairs is in memory."""

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import pad

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class PairTable(NamedTuple):
    """A term of the bias as rows of a table, which a pair adds up and divides.

    Attributes:
        table: [R, H].
        rows: int32 [B, N, N, L] in 0..R - 1.
        divisor: [B, N, N]; None: 1.
    """

    table: Tensor
    rows: Tensor
    divisor: Tensor | None = None

    def after(self, num_virtual: int) -> "PairTable":
        """The term with virtual nodes, whose pairs have 0, before the others."""
        before = num_virtual, 0, num_virtual, 0
        divisor = None if self.divisor is None else pad(self.divisor, before, value=1)
        rows = pad(self.rows, (0, 0, *before), value=len(self.table))
        return PairTable(pad(self.table, (0, 0, 0, 1)), rows, divisor)


class TableBias:
    """Sum of `PairTable`s of T nodes, and of a bias [B, H, T, T] if there is such a bias."""

    def __init__(
        self, tables: Sequence[PairTable], further: Tensor | None = None
    ) -> None:
        self.tables, self.further = list(tables), further

    def dense(self) -> Tensor:
        """[B, H, T, T]."""
        B, T, _, _ = self.tables[0].rows.shape
        heads = self.tables[0].table.shape[1]
        b, h, i, j = torch.meshgrid(*map(torch.arange, (B, heads, T, T)), indexing="ij")
        return self.score_mod()(self.tables[0].table.new_zeros(()), b, h, i, j)

    def score_mod(self) -> ScoreMod:
        """The function that flex_attention adds to its kernel."""
        tables, further = self.tables, self.further

        def _add(score, b, h, i, j):
            for table, rows, divisor in tables:
                term = table[rows[b, i, j, 0], h]
                for step in range(1, rows.shape[3]):
                    term = term + table[rows[b, i, j, step], h]
                score = score + (term if divisor is None else term / divisor[b, i, j])
            return score if further is None else score + further[b, h, i, j]

        return _add


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    return torch.compile(flex_attention, dynamic=True)


def flexible_attention(
    qkv: Iterable[Tensor], score_mod: ScoreMod, dropout: float
) -> Tensor:
    """softmax_j(score_mod(q_i . k_j / sqrt(d), b, h, i, j)) v_j.

    Compiled on a GPU. On a CPU it is PyTorch's plain form, which holds the scores, and has
    no backward pass.

    Args:
        qkv: queries, keys and values, [B, H, T, d] each.
        dropout: on the weights; flex_attention has none.

    Returns:
        [B, H, T, d].

    Raises:
        ValueError: dropout.
        NotImplementedError: a gradient on a CPU.
    """
    if dropout:
        raise ValueError(
            "flex_attention has no dropout on the weights; expected --attention-dropout 0"
        )
    q, k, v = qkv
    if q.device.type != "cpu":
        return _compiled()(q, k, v, score_mod=score_mod)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        return flex_attention(q, k, v, score_mod=score_mod)
