"""Building blocks: plain `nn.Module`s, without fairseq and its registries.

They know torch, the codes and the compiled attention of `cython_ext`, and PyG's layers.
"""

from graphormer_plugin.modules.attention_formula import RelationTables
from graphormer_plugin.modules.attn_bias import (
    AttnBias,
    EdgeBias,
    PathEncoding,
    SpatialEncoding,
)
from graphormer_plugin.modules.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.biased_attention import BiasedAttention
from graphormer_plugin.modules.bond_encoder import (
    BondEncoder,
    EdgeEncoder,
    FeatureMap,
    edge_encoder,
)
from graphormer_plugin.modules.cgt_encoder import CGTEncoder, CGTEncoderConfig
from graphormer_plugin.modules.chromatic_attention import (
    ChromaticAttention,
    PairVectors,
    filter_messages,
)
from graphormer_plugin.modules.compiled_attention import plain_attention
from graphormer_plugin.modules.convolutions import (
    Edges,
    GatedGraphConvolution,
    LayerSettings,
    gin,
)
from graphormer_plugin.modules.dropout import Dropout
from graphormer_plugin.modules.edge_attention import (
    EdgeAttention,
    EdgeScores,
    ScoreOutput,
)
from graphormer_plugin.modules.edge_input import EdgeInput
from graphormer_plugin.modules.embedding_sum import embedding_sum
from graphormer_plugin.modules.encoder import Encoder, SparseEncoder
from graphormer_plugin.modules.encoder_config import defaults, option, redefault
from graphormer_plugin.modules.encoder_layer import EncoderLayer
from graphormer_plugin.modules.gaussian_kernels import (
    DistanceKernels,
    GaussianKernels,
    pair_distances,
)
from graphormer_plugin.modules.gps_encoder import GPSEncoder, GPSEncoderConfig, GPSLayer
from graphormer_plugin.modules.graph_transformer_encoder import (
    GraphTransformerEncoder,
    GraphTransformerEncoderConfig,
    GraphTransformerLayer,
)
from graphormer_plugin.modules.graphormer_3d_encoder import (
    Graphormer3DEncoder,
    Graphormer3DEncoderConfig,
    VectorHead,
)
from graphormer_plugin.modules.graphormer_encoder import (
    GraphormerEncoder,
    GraphormerEncoderConfig,
)
from graphormer_plugin.modules.grpe_encoder import (
    GRPEEncoder,
    GRPEEncoderConfig,
    RelationEncoding,
)
from graphormer_plugin.modules.message_passing import (
    CONVOLUTIONS,
    LayersHead,
    MessagePassingEncoder,
    MessagePassingEncoderConfig,
)
from graphormer_plugin.modules.node_encoder import NodeEncoder, VirtualNode
from graphormer_plugin.modules.node_encodings import (
    NodeEncoding,
    register_node_encoding,
    walk_powers,
)
from graphormer_plugin.modules.pair_encoder import PairEncoder, PairProjection
from graphormer_plugin.modules.pair_encodings import (
    PairEncoding,
    PairTerms,
    make_pair_terms,
    register_pair_encoding,
)
from graphormer_plugin.modules.readout import (
    LinearHead,
    MLPHead,
    TransformHead,
    read_out,
)
from graphormer_plugin.modules.relative_attention import RelativeAttention
from graphormer_plugin.modules.sparse import NodeLayout, scatter_sum
from graphormer_plugin.modules.vocabulary import Vocabularies

__all__ = [
    "CONVOLUTIONS",
    "AttnBias",
    "BiasedAttention",
    "BondEncoder",
    "CGTEncoder",
    "CGTEncoderConfig",
    "ChromaticAttention",
    "Dropout",
    "EdgeAttention",
    "EdgeBias",
    "EdgeEncoder",
    "EdgeInput",
    "Edges",
    "FeatureMap",
    "defaults",
    "edge_encoder",
    "EdgeScores",
    "Encoder",
    "EncoderLayer",
    "GPSEncoder",
    "GPSEncoderConfig",
    "GPSLayer",
    "GRPEEncoder",
    "GRPEEncoderConfig",
    "GatedGraphConvolution",
    "DistanceKernels",
    "GaussianKernels",
    "GraphTransformerEncoder",
    "GraphTransformerEncoderConfig",
    "GraphTransformerLayer",
    "Graphormer3DEncoder",
    "Graphormer3DEncoderConfig",
    "GraphormerEncoder",
    "GraphormerEncoderConfig",
    "LayerSettings",
    "LayersHead",
    "LinearHead",
    "MLPHead",
    "MessagePassingEncoder",
    "MessagePassingEncoderConfig",
    "MaskedBatchNorm",
    "NodeEncoder",
    "NodeEncoding",
    "NodeLayout",
    "PairEncoder",
    "PairEncoding",
    "PairProjection",
    "PairTerms",
    "PairVectors",
    "PathEncoding",
    "RelationEncoding",
    "RelationTables",
    "RelativeAttention",
    "ScoreOutput",
    "SparseEncoder",
    "SpatialEncoding",
    "TransformHead",
    "VirtualNode",
    "VectorHead",
    "Vocabularies",
    "embedding_sum",
    "filter_messages",
    "gin",
    "make_pair_terms",
    "option",
    "pair_distances",
    "plain_attention",
    "read_out",
    "redefault",
    "register_node_encoding",
    "register_pair_encoding",
    "scatter_sum",
    "walk_powers",
]
