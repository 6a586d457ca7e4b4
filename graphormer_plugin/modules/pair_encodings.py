"""Further encodings of node pairs for GRPE, Graphormer, CGT and GPS.

An encoding computes numbers for each pair of nodes. The architecture maps them linearly:
Graphormer, GRPE and GPS to a scalar per head, added to the scores of the attention; CGT to a
vector, added to its pair features E^(0). Further encodings are not part of any of the
papers; the map starts as other linear maps of the architecture do (our choice).
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice
from graphormer_plugin.components import is_same_definition, matching
from graphormer_plugin.modules.node_position import walk_powers
from graphormer_plugin.modules.vocabulary import Vocabularies


class PairEncoding(nn.Module):
    """Numbers for each pair of nodes, computed from batch fields.

    A subclass sets `fields` and `num_features` and defines `forward`. It may have weights
    of its own, which are trained with the model; CGT then computes its attention without
    the compiled function, with [B, N, N, D] in memory.

    `forward` takes only the batch `fields`: per graph [B, ...], node [B, N, ...] or pair
    [B, N, N, ...]. Their types and padding are in `graphormer_plugin.data.batches.fields`;
    fields of `graphormer_plugin.data.batches.fields.registered.register_field` are float32,
    0 at padding. `node_mask` is a field; the vectors of the nodes are not.

    Attributes:
        fields: batch fields that `forward` takes, in its order.
        num_features: F, numbers per pair.
    """

    fields: tuple[str, ...]
    num_features: int

    def __init__(self, vocabularies: Vocabularies) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(()), persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        """Number format to compute in: float32, or float64 in a model of doubles."""
        return torch.promote_types(self.one.dtype, torch.float32)

    @property
    def field_options(self) -> dict[str, Any]:
        """Parameters of the fields, by their names in `BatchSpec`, e.g. `max_hop`."""
        return {}

    def forward(self, *fields: Tensor) -> Tensor:
        """The batch fields -> [B, N, N, F], finite, also where a pair is padding."""
        raise NotImplementedError


PairEncodingFactory = Callable[[Vocabularies], PairEncoding]
PAIR_ENCODINGS: dict[str, PairEncodingFactory] = {}


def register_pair_encoding(
    name: str,
) -> Callable[[PairEncodingFactory], PairEncodingFactory]:
    """Decorator that makes an encoding known to ``--pair-encodings``.

    A class of the same name and module, such as a notebook's cell that is run again,
    replaces the earlier class.

    Args:
        name: value of the option, without a comma.

    Raises:
        ValueError: another class or module has the name, or a function without a name.
    """

    def _register(factory: PairEncodingFactory) -> PairEncodingFactory:
        earlier = PAIR_ENCODINGS.get(name)
        if earlier is not None and not is_same_definition(earlier, factory):
            raise ValueError(f"pair encoding {name!r} is already registered")
        PAIR_ENCODINGS[name] = factory
        return factory

    return _register


def list_pair_encodings(*patterns: str) -> list[str]:
    """Names for ``--pair-encodings`` that match one of some patterns; all without."""
    return matching(PAIR_ENCODINGS, patterns)


def make_pair_encodings(names: str, vocabularies: Vocabularies) -> list[PairEncoding]:
    """Encodings by their registered names, which are separated by commas."""
    chosen = [name.strip() for name in names.split(",")] if names else []
    for name in chosen:
        check_choice("pair encoding", name, list_pair_encodings())
    return [PAIR_ENCODINGS[name](vocabularies) for name in chosen]


@register_pair_encoding("random_walks")
class RandomWalks(PairEncoding):
    """Probabilities that a random walk from i is at j after 1..K steps, Eq. 10 of
    Menegaux et al. 2023 (hal-04105101), whose CGT has them as its own `rwse`. K is
    16."""

    fields = ("bond",)
    num_features = 16

    def forward(self, bond: Tensor) -> Tensor:
        """bond [B, N, N] -> [B, N, N, 16]."""
        return walk_powers(bond, self.num_features, self.dtype)


class PairTerm(nn.Module):
    """Linear map of an encoding, without bias.

    Args:
        width: width of the output: H for scalars per head, or the width of pair vectors.
    """

    def __init__(self, encoding: PairEncoding, width: int) -> None:
        super().__init__()
        self.encoding = encoding
        self.projection = nn.Linear(encoding.num_features, width, bias=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """Batch fields that `forward` takes, in its order."""
        return self.encoding.fields

    def features(self, *fields: Tensor) -> Tensor:
        """Batch fields -> [B, N, N, F] in the type of the weights."""
        return self.encoding(*fields).to(self.projection.weight.dtype)

    def forward(self, *fields: Tensor) -> Tensor:
        """Batch fields -> [B, N, N, width]."""
        return self.projection(self.features(*fields))


class PairTerms(nn.ModuleList):
    """A `PairTerm` for each of several encodings."""

    def __init__(self, encodings: Iterable[PairEncoding], width: int) -> None:
        super().__init__(PairTerm(encoding, width) for encoding in encodings)

    @property
    def required_fields(self) -> frozenset[str]:
        """Batch fields that the encodings read."""
        return frozenset(name for term in self for name in term.fields)

    @property
    def field_options(self) -> list[dict[str, Any]]:
        """`field_options` of each encoding."""
        return [term.encoding.field_options for term in self]

    def attn_bias(
        self, batch: dict[str, Tensor], num_before: int
    ) -> tuple[Tensor, ...]:
        """Sum of all terms as a bias [B, H, T, T] of attention, in a tuple that is empty
        without terms. Pairs with the first `num_before` virtual nodes have a bias of 0.
        """
        if not len(self):
            return ()
        terms = [term(*(batch[name] for name in term.fields)) for term in self]
        nodes = sum(terms).permute(0, 3, 1, 2)  # [B, N, N, H] -> [B, H, N, N]
        return (F.pad(nodes, (num_before, 0, num_before, 0)),)
