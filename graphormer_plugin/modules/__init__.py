"""Building blocks: plain `nn.Module`s, without fairseq and its registries.

They know torch, the codes and the compiled attention of `cython_ext`, and PyG's layers.
"""

from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.attention.chromatic import (
    ChromaticAttention,
    PairVectors,
    filter_messages,
)
from graphormer_plugin.modules.attention.compiled import plain_attention
from graphormer_plugin.modules.attention.edge import (
    EdgeAttention,
    EdgeScores,
    GivenEdgeAttention,
    GivenEdges,
    ScoreOutput,
)
from graphormer_plugin.modules.attention.formula import RelationTables
from graphormer_plugin.modules.attention.relative import RelativeAttention
from graphormer_plugin.modules.encoders.base import Encoder, SparseEncoder
from graphormer_plugin.modules.encoders.cgt import CGTEncoder, CGTEncoderConfig
from graphormer_plugin.modules.encoders.gps import (
    GPSEncoder,
    GPSEncoderConfig,
    GPSLayer,
)
from graphormer_plugin.modules.encoders.graph_transformer import (
    GraphTransformerEncoder,
    GraphTransformerEncoderConfig,
    GraphTransformerLayer,
)
from graphormer_plugin.modules.encoders.graphormer import (
    GraphormerEncoder,
    GraphormerEncoderConfig,
)
from graphormer_plugin.modules.encoders.graphormer_3d import (
    Graphormer3DEncoder,
    Graphormer3DEncoderConfig,
    VectorHead,
)
from graphormer_plugin.modules.encoders.grit import GRITEncoder, GRITEncoderConfig
from graphormer_plugin.modules.encoders.grpe import (
    GRPEEncoder,
    GRPEEncoderConfig,
    RelationEncoding,
)
from graphormer_plugin.modules.encoders.message_passing import (
    CONVOLUTIONS,
    LayersHead,
    MessagePassingEncoder,
    MessagePassingEncoderConfig,
)
from graphormer_plugin.modules.encoders.tokengt import (
    TokenGTEncoder,
    TokenGTEncoderConfig,
)
from graphormer_plugin.modules.encodings.attn_bias import (
    AttnBias,
    EdgeBias,
    PathEncoding,
    SpatialEncoding,
)
from graphormer_plugin.modules.encodings.bond_encoder import (
    BondEncoder,
    EdgeEncoder,
    FeatureMap,
    edge_encoder,
)
from graphormer_plugin.modules.encodings.gaussian_kernels import (
    DistanceKernels,
    GaussianKernels,
    pair_distances,
)
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder, VirtualNode
from graphormer_plugin.modules.encodings.node_encodings import (
    NodeEncoding,
    register_node_encoding,
    walk_powers,
)
from graphormer_plugin.modules.encodings.pair_encoder import PairEncoder, PairProjection
from graphormer_plugin.modules.encodings.pair_encodings import (
    PairEncoding,
    PairTerms,
    make_pair_terms,
    register_pair_encoding,
)
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.embedding_sum import embedding_sum
from graphormer_plugin.modules.layers.encoder_config import defaults, option, redefault
from graphormer_plugin.modules.layers.encoder_layer import EncoderLayer
from graphormer_plugin.modules.layers.readout import (
    LinearHead,
    MLPHead,
    TransformHead,
    read_out,
)
from graphormer_plugin.modules.layers.sparse import NodeLayout, scatter_sum
from graphormer_plugin.modules.message_passing.convolutions import (
    Edges,
    GatedGraphConvolution,
    LayerSettings,
    gin,
)
from graphormer_plugin.modules.message_passing.edge_input import EdgeInput

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
    "GRITEncoder",
    "GRITEncoderConfig",
    "GRPEEncoder",
    "GRPEEncoderConfig",
    "GatedGraphConvolution",
    "DistanceKernels",
    "GaussianKernels",
    "GivenEdgeAttention",
    "GivenEdges",
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
    "TokenGTEncoder",
    "TokenGTEncoderConfig",
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
