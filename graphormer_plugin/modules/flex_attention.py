"""PyTorch's flex_attention, whose kernel looks the bias of a pair up where it computes the
score: no tensor of all heads and pairs is in memory. For GPUs; never tried on a GPU."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import pad

LEAST_WIDTH = 16  # of a head, in the kernel of a GPU

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

    def after(self, num_virtual: int, scalar: Tensor | None = None) -> "PairTable":
        """The term with virtual nodes before the others: T nodes for N.

        Args:
            num_virtual: T - N.
            scalar: [1, H], of each pair with a virtual node; None: 0.
        """
        if scalar is None:
            scalar = self.table.new_zeros(1, self.table.shape[1])
        before = num_virtual, 0, num_virtual, 0
        divisor = None if self.divisor is None else pad(self.divisor, before, value=1)
        rows = pad(self.rows, (0, 0, *before), value=len(self.table))
        return PairTable(torch.cat([self.table, scalar]), rows, divisor)


class TableBias:
    """Bias of a pair as a function of its place, for flex_attention.

    Args:
        tables: of T nodes.
        mask: [B, T, T], added for all heads: 0, or a large negative number.
        further: [B, H, T, T], added to the tables.
    """

    def __init__(
        self, tables: Sequence[PairTable], mask: Tensor, further: Tensor | None = None
    ) -> None:
        self.mask, self.further = mask, further
        # The kernel has no gradient for a table that is read twice: a copy for each step.
        self.terms = [
            ([table.clone() for _ in rows.unbind(3)], rows.unbind(3), divisor)
            for table, rows, divisor in tables
        ]

    def dense(self, heads: int) -> Tensor:
        """[B, H, T, T]."""
        B, T, _ = self.mask.shape
        device = self.mask.device
        sizes = (torch.arange(n, device=device) for n in (B, heads, T, T))
        places = torch.meshgrid(*sizes, indexing="ij")
        return self.score_mod()(torch.zeros((), device=device), *places)

    def score_mod(self) -> ScoreMod:
        """The function that flex_attention adds to its kernel."""
        # Tensors: a number that is captured breaks the compiled graph.
        terms, mask, further = self.terms, self.mask, self.further

        def _add(score, b, h, i, j):
            for tables, steps, divisor in terms:
                looked_up = [t[rows[b, i, j], h] for t, rows in zip(tables, steps)]
                term = sum(looked_up[1:], looked_up[0])
                score = score + (term if divisor is None else term / divisor[b, i, j])
            if further is not None:
                score = score + further[b, h, i, j]
            return score + mask[b, i, j]

        return _add


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    return torch.compile(flex_attention, dynamic=True)


def flex_attention_fits(x: Tensor) -> bool:
    """Whether flex_attention serves where x is: on a GPU, and not in an exported program.
    Its form for CPUs holds the scores, is slow, and has no gradient."""
    return x.device.type != "cpu" and not torch.compiler.is_compiling()


def flexible_attention(qkv: Iterable[Tensor], score_mod: ScoreMod) -> Tensor:
    """softmax_j(score_mod(q_i . k_j / sqrt(d), b, h, i, j)) v_j.

    Args:
        qkv: queries, keys and values, [B, H, T, d] each.
        score_mod: adds the bias of head h and nodes i, j of graph b.

    Returns:
        [B, H, T, d].
    """
    q, k, v = qkv
    d = q.shape[3]
    if d < LEAST_WIDTH:
        q, k, v = (pad(part, (0, LEAST_WIDTH - d)) for part in (q, k, v))
    attend = flex_attention if q.device.type == "cpu" else _compiled()
    return attend(q, k, v, score_mod=score_mod, scale=d**-0.5)[..., :d]
