"""Building blocks: plain `nn.Module`s that know torch only (no fairseq, no
registry; message passing has PyG's layers)."""

from .attn_bias import (
    AttnBias,
    EdgeBias,
    GaussianDistance,
    PathEncoding,
    SpatialEncoding,
)
from .batch_norm import MaskedBatchNorm
from .biased_attention import BiasedAttention
from .bond_encoder import BondEncoder
from .cgt_encoder import CGTEncoder
from .chromatic_attention import ChromaticAttention, PairVectors, filter_messages
from .dropout import Dropout
from .edge_attention import EdgeAttention, EdgeScores, ScoreOutput
from .embedding_sum import embedding_sum
from .encoder import Encoder, SparseEncoder, joined_options
from .encoder_layer import EncoderLayer
from .graph_transformer_encoder import (
    GraphTransformerEncoder,
    GraphTransformerLayer,
)
from .graphormer_encoder import GraphormerEncoder
from .grpe_encoder import GRPEEncoder, RelationEncoding
from .message_passing import LayersHead, MessagePassingEncoder
from .node_encoder import NodeEncoder, VirtualNode
from .node_position import (
    CentralityEncoding,
    IncidentBonds,
    LaplacianEncoding,
    RandomWalkEncoding,
    WLEncoding,
    return_probabilities,
    walk_powers,
)
from .pair_encoder import PairEncoder, PairProjection
from .pair_encodings import (
    PairEncoding,
    PairTerms,
    make_pair_encodings,
    register_pair_encoding,
)
from .readout import LinearHead, MLPHead, TransformHead, read_out
from .relative_attention import RelationTables, RelativeAttention
from .sparse import NodeLayout, scatter_sum
from .vocabulary import Vocabularies

__all__ = [
    "AttnBias",
    "BiasedAttention",
    "BondEncoder",
    "CGTEncoder",
    "CentralityEncoding",
    "ChromaticAttention",
    "Dropout",
    "EdgeAttention",
    "EdgeBias",
    "EdgeScores",
    "Encoder",
    "EncoderLayer",
    "GRPEEncoder",
    "GaussianDistance",
    "GraphTransformerEncoder",
    "GraphTransformerLayer",
    "GraphormerEncoder",
    "IncidentBonds",
    "LaplacianEncoding",
    "LayersHead",
    "LinearHead",
    "MLPHead",
    "MessagePassingEncoder",
    "MaskedBatchNorm",
    "NodeEncoder",
    "NodeLayout",
    "PairEncoder",
    "PairEncoding",
    "PairProjection",
    "PairTerms",
    "PairVectors",
    "PathEncoding",
    "RandomWalkEncoding",
    "RelationEncoding",
    "RelationTables",
    "RelativeAttention",
    "ScoreOutput",
    "SparseEncoder",
    "SpatialEncoding",
    "TransformHead",
    "VirtualNode",
    "Vocabularies",
    "WLEncoding",
    "embedding_sum",
    "filter_messages",
    "joined_options",
    "make_pair_encodings",
    "read_out",
    "register_pair_encoding",
    "return_probabilities",
    "scatter_sum",
    "walk_powers",
]
