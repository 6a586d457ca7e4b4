"""GT: A Generalization of Transformer Networks to Graphs (Dwivedi & Bresson 2021).

https://arxiv.org/abs/2012.09699. Details that the paper leaves open come from the released
code (graphdeeplearning/graphtransformer), with which an imported model agrees:

- Scores are clamped to [-5, 5] before the exponential ("the outputs after taking
  exponents", says the paper). 1e-6 is added to the denominator if edges have features.
- The scores per channel go on as edge features, before the sum over a head and before
  the clamp. Nothing reads the edges of the last layer.
- Embeddings are tables; queries, keys, values and the edge projection have no bias.
- The head has two hidden layers, of D / 2 and D / 4.
- The full graph has no edge from a node to itself. If edges have features, all its pairs
  start with one constant vector, which the layers update. Table 1 has these 588,929 weights
  on ZINC, although its text says that edge features are discarded (`--no-pair-features`).
- A WL role is a degree: the code computes two rounds and keeps the first. The tables have 37
  rows on ZINC (`--node-encodings degrees:37:0`) and 100 on PATTERN and CLUSTER. `wl` adds
  the degrees of the neighbours.
- Weights start as torch's layers do.

Differences from the released code:

- A node without edges gets the bias of O_h instead of NaN.
- Dropout is at the places of a Transformer's layer (rates are 0 in the paper).
- Roles are the same in all graphs; the released code numbers the roles of each graph
  anew, in the order of a checksum. Degrees above the table share its last row.
- Each eigenvector of each graph has a random sign in training; in the released code all
  graphs of a batch share the signs.

A prediction from eigenvectors depends on the numbering of the nodes: their signs are a
choice, and so is their basis if eigenvalues are equal (examples/models has figures).
"""

from dataclasses import dataclass

from graphormer_plugin.models._base import GraphModel, TransformerConfig
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    GraphTransformerEncoder,
    GraphTransformerEncoderConfig,
    MLPHead,
    option,
)


@dataclass
class GraphTransformerConfig(GraphTransformerEncoderConfig, TransformerConfig):
    """Options of GT's encoder and read-out."""

    readout: str = option("mean", "read-out of the nodes of a graph: mean, sum or max")


@register_model(
    "gt",
    GraphTransformerConfig,
    # Table 1; ten layers everywhere.
    gt_zinc={},
    # 2 eigenvectors on PATTERN, 10 on CLUSTER (Table 3).
    gt_sbm={"encoder_embed_dim": 80, "node_encodings": "laplacian:2"},
    # Table 1 and section B.3.1 of Ying et al. 2021 (arXiv:2106.05234), on PCQM4M.
    gt_wide={"encoder_embed_dim": 768, "node_encodings": "laplacian:4"},
)
class GraphTransformerModel(GraphModel):
    """`GraphTransformerEncoder` with a network on the mean of the nodes, or on each."""

    @classmethod
    def build_model(cls, cfg: GraphTransformerConfig, task) -> "GraphTransformerModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        encoder = GraphTransformerEncoder(task.schema, cfg)
        head = MLPHead.halving(cfg.encoder_embed_dim, 2, task.targets.num_outputs)
        return cls(encoder, head, task.targets.level, cfg.readout)
