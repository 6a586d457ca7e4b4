"""Graphormer: Do Transformers Really Perform Bad for Graph Representation? (Ying et al.
2021).

https://arxiv.org/abs/2106.05234, and its released code (microsoft/Graphormer). The names of
the options are those of its second version. There are two families of presets:

- `graphormer_paper_{slim,small,base,deep}` are the paper's networks (Eq. 5-9):
  LayerNorm before each half of a layer; a linear head; dropout 0.1, except inside the
  feed-forward network and on the embeddings; linear maps start from
  N(0, 0.02 / sqrt(L)), as in the first version of the code.
- `graphormer_{slim,base,large}` are the networks of the second version, under its names:
  LayerNorm after each half unless `--pre-layernorm`, and on the embeddings
  (`--encoder-normalize-before`); a head with a hidden layer and LayerNorm (`--head-style
  transform`); inner dropout 0.1 and dropout 0.0, which also acts on the embeddings;
  linear maps start from N(0, 0.02) (`--apply-graphormer-init`); 512 rows for every
  column and 128 path steps; GELU and softmax in float32.

Embeddings start from N(0, 0.02) in both. Other differences between paper and code:

- Paths of the edge encoding are cut at `--multi-hop-max-dist` edges and averaged over
  the rest, as in the released code; the paper averages over the whole path.
- The released code adds the embedding of "no edge", an untrained row of its table, to the
  bias of pairs without an edge. Here it is zero; an imported model has it in its distance
  table, which is equal.
- One vector per in-degree and one per out-degree of the true, directed graph (Eq. 5);
  the released code takes the same number for both.
- Paths through the first node keep their edges; the released code loses them, because
  0 also stands for "no node between".
- The presets slim and large of the second version have `--dropout` 0.1 and `--act-dropout`
  0.0 by default. All its own commands set 0.0 and 0.1, which are the presets' values here.
- The released code leaves graphs of more than 128 nodes out of all splits.
- A LayerNorm follows the last layer of the networks with `--pre-layernorm` and a linear
  head, as in the first version of the code; no equation of the paper has it.

If several shortest paths join two nodes, the edge encoding reads the first that the
compiled function finds. It depends on the numbering of the nodes; distances do not.

GELU comes from the released code; the paper states no activation.
"""

import logging
from dataclasses import dataclass
from typing import Optional

from graphormer_plugin.choices import check_choice
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.models._base import GraphModel, PairConfig, sizes
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    GraphormerEncoder,
    GraphormerEncoderConfig,
    LinearHead,
    TransformHead,
    option,
)

logger = logging.getLogger(__name__)

HEAD_STYLES = ("linear", "transform")


@dataclass
class GraphormerConfig(GraphormerEncoderConfig, PairConfig):
    """Options of Graphormer's encoder and head, and options of v2 without effect."""

    head_style: str = option(
        "linear", "linear (paper), or transform, with a hidden layer (code)"
    )
    share_encoder_input_output_embed: bool = option(False, "released code; no effect")
    encoder_learned_pos: bool = option(False, "released code; no effect there or here")
    no_token_positional_embeddings: bool = option(
        False, "released code; no effect there or here"
    )
    max_positions: Optional[int] = option(
        None, "released code; no effect there or here"
    )


# Flags of the released code that change nothing, and why.
WITHOUT_EFFECT = {
    "share_encoder_input_output_embed": "outputs are not words of a vocabulary",
    "encoder_learned_pos": "nodes have no order",
    "no_token_positional_embeddings": "nodes have no order",
    "max_positions": "--max-nodes limits the size of graphs",
}


# The paper's networks: Tables 7 and 10 and section B.2.2.
_PAPER = {"pre_layernorm": True, "input_dropout": 0.0}
# Pre-trained for MolPCBA (section B.2.2).
_DEEP = {**_PAPER, **sizes(layers=18, width=1024, heads=32), "attention_dropout": 0.3}
# Tables of the first release for ZINC. Larger tables would exceed the 500k parameters that
# the benchmark allows.
_SLIM_TABLES = {"num_in_degree": 64, "num_out_degree": 64, "num_spatial": 40}

# The networks of the second version.
_RELEASED = {
    "encoder_normalize_before": True,
    "head_style": "transform",
    "apply_graphormer_init": True,
    "dropout": 0.0,
    "attention_dropout": 0.1,
    "act_dropout": 0.1,
    # fairseq's GELU and softmax, which it calls.
    "activation_fn": "gelu_float32",
    "float32_softmax": True,
    "node_table_size": 512,
    "bond_table_size": 512,
    "num_edge_dis": 128,
}


@register_model(
    "graphormer",
    GraphormerConfig,
    graphormer_paper_slim={
        **_PAPER,
        **sizes(layers=12, width=80, heads=8),
        **_SLIM_TABLES,
    },
    graphormer_paper_small={**_PAPER, **sizes(layers=6, width=512, heads=32)},
    graphormer_paper_base={**_PAPER, **sizes(layers=12, width=768, heads=32)},
    graphormer_paper_deep=_DEEP,
    graphormer_slim={**_RELEASED, **sizes(layers=12, width=80, heads=8)},
    graphormer_base={**_RELEASED, **sizes(layers=12, width=768, heads=32)},
    graphormer_large={**_RELEASED, **sizes(layers=24, width=1024, heads=32)},
)
class GraphormerModel(GraphModel):
    """`GraphormerEncoder` with a head on the virtual node, else on the mean of the nodes."""

    @classmethod
    def build_model(cls, cfg: GraphormerConfig, task) -> "GraphormerModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        check_choice("head_style", cfg.head_style, HEAD_STYLES)
        for name, reason in WITHOUT_EFFECT.items():
            if getattr(cfg, name):
                logger.info("%s has no effect: %s", flag_of(name), reason)
        transform = cfg.head_style == "transform"
        # The transform head normalises, and the released code has no other norm.
        encoder = GraphormerEncoder(
            task.schema, cfg, final_norm=cfg.pre_layernorm and not transform
        )
        outputs = task.targets.num_outputs
        if transform:
            head = TransformHead(cfg.encoder_embed_dim, outputs, cfg.activation_fn)
        else:
            head = LinearHead(cfg.encoder_embed_dim, outputs)
        head.apply(encoder.initialise)
        return cls(encoder, head, task.targets.level)
