"""Further encodings of node pairs for GRPE, Graphormer, CGT and GPS.

An encoding computes numbers for each pair of nodes. The architecture maps them linearly:
Graphormer, GRPE and GPS to a scalar per head, added to the scores of the attention; CGT to a
vector, added to its pair features E^(0). Further encodings are not part of any of the
papers; the map starts as other linear maps of the architecture do (our choice).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.modules.encodings.gaussian_kernels import (
    DistanceKernels,
    pair_distances,
)
from graphormer_plugin.modules.encodings.node_encodings import walk_powers
from graphormer_plugin.modules.encodings.registry import Encoding, EncodingRegistry
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.encoder_config import PairTransformerConfig
from graphormer_plugin.modules.layers.sparse import Batch


class PairEncoding(Encoding):
    """Numbers for each pair of nodes, [B, N, N, F]; see `Encoding`. With weights of its own,
    CGT computes its attention without the compiled function, with [B, N, N, D] in memory.

    Attributes:
        node_factor: factor of the sum of a node's numbers over all nodes, which a linear map
            adds to its vector; 0: nothing is added.
    """

    node_factor: float = 0.0

    def hidden(self, numbers: Tensor, *fields: Tensor) -> Tensor:
        """What the architecture maps linearly, [B, N, N, F], of the numbers in the type of
        its weights and of what `forward` takes."""
        return numbers


PAIR_ENCODINGS: EncodingRegistry[PairEncoding] = EncodingRegistry("pair encoding")
"""Values of ``--pair-encodings``."""

register_pair_encoding = PAIR_ENCODINGS.register
list_pair_encodings = PAIR_ENCODINGS.list_names


@register_pair_encoding("random_walks")
class RandomWalks(PairEncoding):
    """Probabilities that a random walk from i is at j after 1..K steps, Eq. 10 of
    Menegaux et al. 2023 (hal-04105101), whose CGT has them as its own `rwse`."""

    fields = ("bond",)

    def __init__(self, vocabularies: Vocabularies, num_steps: int = 16) -> None:
        super().__init__(vocabularies)
        self.num_features = num_steps

    def forward(self, bond: Tensor) -> Tensor:
        """bond [B, N, N] -> [B, N, N, K]."""
        return torch.stack(walk_powers(bond, self.num_features, self.dtype), -1)


@register_pair_encoding("gaussians")
class Gaussians(PairEncoding):
    """Distances of atoms in a basis of Gaussians, `DistanceKernels`, and a hidden layer with
    GELU before the linear map of the architecture, as in Graphormer-3D and Transformer-M. The
    type of an atom is the first column of its features."""

    options = (
        "gaussian_kernels",
        "gaussian_types",
        "gaussian_start",
        "gaussian_node_factor",
    )

    def __init__(
        self,
        vocabularies: Vocabularies,
        gaussian_kernels: int = 128,
        gaussian_types: str = "none",
        gaussian_start: str = "uniform",
        gaussian_node_factor: float = 0.0,
    ) -> None:
        super().__init__(vocabularies)
        typed = gaussian_types != "none"
        if typed and vocabularies.node_dims is None:
            raise ValueError(
                f"gaussian_types {gaussian_types}: nodes have numbers, not types of atoms; "
                "expected none"
            )
        self.fields = ("pos", "x") if typed else ("pos",)
        self.num_features = gaussian_kernels
        self.node_factor = gaussian_node_factor
        num_atoms = vocabularies.node_dims[0] if typed else 0
        self.kernels = DistanceKernels(
            gaussian_kernels, gaussian_types, num_atoms, gaussian_start
        )
        self.linear = nn.Linear(gaussian_kernels, gaussian_kernels)

    def forward(self, pos: Tensor, x: Tensor | None = None) -> Tensor:
        """pos [B, N, 3] and x [B, N, F] -> [B, N, N, K]."""
        distances = pair_distances(pos.to(self.dtype))
        if x is None:
            return self.kernels(distances)
        atoms = x[..., 0].long()
        return self.kernels(distances, atoms.unsqueeze(2), atoms.unsqueeze(1))

    def hidden(self, numbers: Tensor, *fields: Tensor) -> Tensor:
        """See `PairEncoding`."""
        return F.gelu(self.linear(numbers))


class PairTerm(nn.Module):
    """Linear map of an encoding, without bias, and that of its sums over nodes.

    Args:
        width: width of the output: H for scalars per head, or the width of pair vectors.
        embed_dim: width of nodes.
    """

    def __init__(self, encoding: PairEncoding, width: int, embed_dim: int) -> None:
        super().__init__()
        self.encoding = encoding
        self.projection = nn.Linear(encoding.num_features, width, bias=False)
        self.nodes = None
        if encoding.node_factor:
            self.nodes = nn.Linear(encoding.num_features, embed_dim)


class PairInput(NamedTuple):
    """What pair encodings make of a batch.

    Attributes:
        features: [B, N, N, F] of each encoding, which its `PairTerm.projection` maps.
        nodes: [B, N, D], added to the nodes; 0 if nothing is.
    """

    features: Sequence[Tensor] = ()
    nodes: Tensor | float = 0.0


NO_PAIRS = PairInput()


class PairTerms(nn.ModuleList):
    """A `PairTerm` for each of several encodings."""

    def __init__(
        self, encodings: Iterable[PairEncoding] = (), width: int = 0, embed_dim: int = 0
    ) -> None:
        super().__init__(PairTerm(one, width, embed_dim) for one in encodings)

    def inputs(self, batch: Batch) -> PairInput:
        """A batch -> features and sums of all encodings."""
        features = []
        nodes: Tensor | float = 0.0
        for term in self:
            encoding = term.encoding
            arguments = encoding.arguments(batch)
            numbers = encoding(*arguments)
            dtype = term.projection.weight.dtype
            if term.nodes is not None:
                real = batch["node_mask"].unsqueeze(1).unsqueeze(-1)
                total = encoding.node_factor * (numbers * real).sum(2)
                nodes = nodes + term.nodes(total.to(dtype))
            features.append(encoding.hidden(numbers.to(dtype), *arguments))
        return PairInput(features, nodes)

    def projected(self, pairs: PairInput) -> list[Tensor]:
        """Linear maps of the features, [B, N, N, width] of each encoding."""
        return [term.projection(one) for term, one in zip(self, pairs.features)]

    def attn_bias(self, pairs: PairInput, num_before: int) -> tuple[Tensor, ...]:
        """Sum of all terms as a bias [B, H, T, T] of attention, in a tuple that is empty
        without terms. Pairs with the first `num_before` virtual nodes have a bias of 0.
        """
        if not len(self):
            return ()
        # [B, N, N, H] -> [B, H, N, N]
        nodes = sum(self.projected(pairs)).permute(0, 3, 1, 2)
        return (F.pad(nodes, (num_before, 0, num_before, 0)),)


def make_pair_terms(
    config: PairTransformerConfig, vocabularies: Vocabularies, width: int
) -> PairTerms:
    """The terms that an encoder's config names, of a ``width``; see `PairTerm`."""
    encodings = PAIR_ENCODINGS.make(config.pair_encodings, config, vocabularies)
    if not any(isinstance(one, Gaussians) for one in encodings):
        for name in Gaussians.options:
            value = getattr(config, name)
            if value != getattr(PairTransformerConfig, name):
                raise ValueError(
                    f"{name} {value} only works with pair_encodings gaussians"
                )
    return PairTerms(encodings, width, config.encoder_embed_dim)
