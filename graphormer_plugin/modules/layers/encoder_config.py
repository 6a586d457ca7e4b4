"""Options that the encoders share, as plain dataclasses.

The field of an option has the flag's name, its default and its help. The configs of
`graphormer_plugin.models` inherit these fields, and fairseq makes flags of them. An
``argparse_alias`` is the flag of the released Graphormer-3D.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphormer_plugin.choices import check_least, option


def redefault(config: type, name: str, default: Any) -> Any:
    """The field of a base class with another default."""
    return field(default=default, metadata=config.__dataclass_fields__[name].metadata)


def defaults(**values: Any) -> Callable[[type], type]:
    """Decorator below `dataclass`: other defaults for options of the base class."""

    def _change(config: type) -> type:
        for name, value in values.items():
            config.__annotations__[name] = config.__dataclass_fields__[name].type
            setattr(config, name, redefault(config, name, value))
        return config

    return _change


@dataclass
class LayersConfig:
    """Size of an encoder with layers."""

    encoder_layers: int = option(
        12, "number of layers, >= 1", argparse_alias="--layers"
    )
    encoder_embed_dim: int = option(
        768, "width D, a multiple of the heads, if any", argparse_alias="--embed-dim"
    )
    dropout: float = option(
        0.1, "dropout on the term that a layer adds to its input, 0 <= p < 1"
    )
    node_table_size: int = option(
        0,
        "rows of the embedding table of every node column; 0 takes the dataset's "
        "vocabulary, the published code has 512",
    )
    node_encodings: str = option(
        "",
        "encodings of the nodes in the input, comma-separated, each with its size: "
        "random_walks:20 (steps), heat_kernel:20 (times), laplacian:8 or signnet:8 "
        "(eigenvectors), degrees:64 (rows), wl:70 (rows), or names that a module in "
        "--user-dir registers; none",
    )
    node_encoding_dim: int = option(
        0, "channels of each encoding beside the node features; 0: added to them"
    )


@dataclass
class TransformerEncoderConfig(LayersConfig):
    """Size and regularisation of a Transformer encoder."""

    encoder_ffn_embed_dim: int = option(
        768,
        "inner width of the feed-forward network",
        argparse_alias="--ffn-embed-dim",
    )
    encoder_attention_heads: int = option(
        32, "attention heads H", argparse_alias="--attention-heads"
    )
    attention_dropout: float = option(0.1, "dropout on attention weights, 0 <= p < 1")
    act_dropout: float = option(
        0.0,
        "dropout after the activation, 0 <= p < 1",
        argparse_alias="--activation-dropout",
    )


@dataclass(kw_only=True)
class SpatialEdgesConfig:
    """Edges of data with positions, for layers along edges."""

    radius: float = option(
        0.0,
        "edges join all atoms that are nearer than this, in angstrom, bonded or not, for "
        "data with --positions; 0: edges are bonds",
    )
    length_kernels: int = option(
        0,
        "Gaussian kernels of the lengths of edges, for data with --positions; 0: lengths are "
        "not read",
    )


@dataclass
class PairTransformerConfig(TransformerEncoderConfig):
    """A Transformer encoder with encodings of node pairs."""

    pair_encodings: str = option(
        "",
        "further encodings of node pairs, comma-separated: gaussians (distances of atoms, "
        "for data with --positions), random_walks:16 (steps), or names that a module in --user-dir "
        "registers",
    )
    gaussian_kernels: int = option(
        128, "kernels of --pair-encodings gaussians, >= 1 (K)"
    )
    gaussian_types: str = option(
        "none",
        "a learned factor and shift of distances in these kernels, by the types of both "
        "atoms: ordered (Graphormer-3D), sum (of a number each, Transformer-M) or none",
    )
    gaussian_start: str = option(
        "uniform",
        "start of these kernels: uniform, U(0, 3) (Graphormer-3D); normal, N(0, 0.02) and "
        "widths of 0.01 or more (Transformer-M); or even, steps from 0 to 6 angstrom (SchNet)",
    )
    gaussian_node_factor: float = option(
        0.0,
        "factor of the sum of these kernels over all atoms in the input of a node: "
        "Graphormer-3D 1, Transformer-M 0.01; 0: none",
    )


@dataclass
class VirtualNodeConfig(PairTransformerConfig):
    """A Transformer encoder over the nodes and a virtual node."""

    no_virtual_node: bool = option(
        False, "nodes only; graphs are read out as the mean of their nodes"
    )


def check_layers(config: LayersConfig) -> None:
    """Raise ValueError if a config has no layer or no width."""
    layers = config.encoder_layers
    embed_dim = config.encoder_embed_dim
    check_least("encoder_layers", layers, 1)
    check_least("encoder_embed_dim", embed_dim, 1)
