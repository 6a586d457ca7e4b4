"""Building blocks: plain `nn.Module`s that know torch only (no fairseq, no
registry)."""

from .dropout import Dropout
from .encoder_layer import EncoderLayer
from .grpe_encoder import GRPEEncoder, RelationEncoding
from .node_encoder import NodeEncoder, VirtualNode
from .relative_attention import RelationTables, RelativeAttention

__all__ = [
    "Dropout",
    "EncoderLayer",
    "GRPEEncoder",
    "NodeEncoder",
    "RelationEncoding",
    "RelationTables",
    "RelativeAttention",
    "VirtualNode",
]
