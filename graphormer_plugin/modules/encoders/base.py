"""Base classes of encoders, with all that models, fine-tuning and explanations read."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from graphormer_plugin.modules.attention.compiled import plain_attention, plain_only
from graphormer_plugin.modules.encodings.node_encoder import VirtualNode
from graphormer_plugin.modules.encodings.registry import Encoding
from graphormer_plugin.modules.layers.batch_norm import running_statistics_kept
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout


class AttentionMaps(Protocol):
    """Attention that can say how much each node attends to every other node."""

    def attention_weights(self, x: Tensor, *arguments: Any) -> Tensor:
        """Weights [B, heads or channels, T, T] of `forward` with the same arguments,
        without dropout; row i has the weights of the sum for node i."""


class Recomputation(contextlib.ExitStack):
    """What later runs of a layer share with the first. Each derivative enters it again; a
    context manager of a generator could be entered once."""

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.plain = plain

    def __enter__(self) -> "Recomputation":
        self.enter_context(running_statistics_kept())
        self.enter_context(plain_attention(self.plain))
        return self


def perturbed(x: Tensor, perturb: Tensor | None) -> Tensor:
    """Vectors of nodes [B, N, D], and what FLAG adds to them."""
    return x if perturb is None else x + perturb.to(x.dtype)


class Encoder(nn.Module):
    """Base of every architecture's encoder: a batch in, a vector per node out.

    A subclass sets `embed_dim` and `layers` and defines `forward`; the rest has defaults
    for layers over padded nodes [B, T, D].

    Attributes:
        embed_dim: width D of the output.
        fields: batch fields that `forward` reads, beside `x`, `node_mask` and those of
            encodings of nodes and pairs.
        options: parameters of these fields, by their names in `BatchSpec`, e.g. `max_hop`.
        layers: layers in their order. The first argument of a layer is the vectors of the
            nodes; it returns them, alone or at the start of a tuple. Explanations read the
            `attention` of a layer if it has `attention_weights`.
        virtual_node: a `VirtualNode`, if the output starts with a virtual node.
        final_norm: the module after the last layer, if there is such a module.
        checkpoint_activations: the backward pass computes each layer a second time, so
            that activations inside the layers need not be kept. Results stay the same.
    """

    embed_dim: int
    fields: Iterable[str] = ()
    options: Mapping[str, Any] = {}
    layers: nn.ModuleList
    final_norm: nn.Module
    checkpoint_activations = False

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """Encode a batch.

        Args:
            batch: the fields of `required_fields`.
            perturb: [B, N, D], added to the encoded node features (FLAG).

        Returns:
            [B, T, D]: the virtual node, if the encoder has it, and the nodes.
        """
        raise NotImplementedError

    def run_layer(self, layer: nn.Module, *arguments: Any, **options: Any) -> Any:
        """`layer(*arguments, **options)`; see `checkpoint_activations`."""
        if not (self.checkpoint_activations and torch.is_grad_enabled()):
            return layer(*arguments, **options)
        recomputation = Recomputation(plain_only())
        return checkpoint(
            layer,
            *arguments,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), recomputation),
            **options,
        )

    @property
    def required_fields(self) -> frozenset[str]:
        """Batch fields that `forward` reads (`graphormer_plugin.data.batches.fields`)."""
        encodings = (name for part in self._encodings() for name in part.fields)
        return frozenset(("x", "node_mask", *self.fields, *encodings))

    @property
    def field_options(self) -> dict[str, Any]:
        """Parameters of these fields, by their names in `BatchSpec`."""
        parts = (part.field_options for part in self._encodings())
        return joined_options(self.options, *parts)

    def _encodings(self) -> Iterator[Encoding]:
        return (part for part in self.modules() if isinstance(part, Encoding))

    @property
    def has_virtual_node(self) -> bool:
        """Whether a virtual node comes first in the output."""
        return isinstance(getattr(self, "virtual_node", None), VirtualNode)

    def layer_modules(self, number: int) -> list[nn.Module]:
        """Modules that only this layer, counted from 0, uses."""
        return [self.layers[number]]

    def modules_after_layers(self) -> list[nn.Module]:
        """Modules that read the output of the last layer, such as a final norm."""
        return [self.final_norm] if hasattr(self, "final_norm") else []

    def attention_modules(self) -> Sequence[AttentionMaps]:
        """The attention of each layer; empty without attention over pairs of nodes."""
        parts = (getattr(layer, "attention", None) for layer in self.layers)
        return [part for part in parts if hasattr(part, "attention_weights")]

    @property
    def attention_unit(self) -> str:
        """The unit that has a map of attention: `head` or `channel`."""
        return "head"

    def padded(self, x: Tensor, batch: Batch) -> Tensor:
        """Values of nodes in the layout of the layers -> [B, T, ...]."""
        return x


class SparseEncoder(Encoder):
    """An encoder whose layers have the nodes of all graphs in a row, [S, D]. `node_graph` is
    one of its `fields`."""

    def padded(self, x: Tensor, batch: Batch) -> Tensor:
        """[S, ...] -> [B, N, ...]."""
        return NodeLayout.of(batch).pad(x)


def joined_options(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Options of batch fields that several modules ask for."""
    joined: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if joined.setdefault(name, value) != value:
                raise ValueError(
                    f"one batch cannot have {name} {joined[name]} and {value}"
                )
    return joined
