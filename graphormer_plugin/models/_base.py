"""What every architecture shares: options of a Transformer encoder, and the fairseq
model around an encoder and a head (fairseq imports no file whose name starts with
_)."""

import dataclasses
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    BaseFairseqModel,
)
from torch import Tensor, nn

from graphormer_plugin.data.fields import BatchSpec
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.modules.choices import check_choice
from graphormer_plugin.modules.readout import READOUTS, read_out


@dataclass
class EncoderConfig(FairseqDataclass):
    """Size and training of an encoder with layers."""

    encoder_layers: int = field(default=12, metadata={"help": "number of layers, >= 1"})
    encoder_embed_dim: int = field(
        default=768, metadata={"help": "width D, a multiple of the heads, if any"}
    )
    dropout: float = field(
        default=0.1,
        metadata={"help": "dropout on what a layer adds to its input, 0 <= p < 1"},
    )
    node_table_size: int = field(
        default=0,
        metadata={
            "help": "rows of the embedding table of every node column; 0 takes the "
            "dataset's vocabulary, the published code has 512"
        },
    )
    freeze_encoder_layers: int = field(
        default=0,
        metadata={
            "help": "embeddings and the first so many layers are not trained; 0: all are"
        },
    )
    layerwise_lr_decay: float = field(
        default=1.0,
        metadata={
            "help": "learning rate of a layer over that of the layer above, 0 < x <= 1; "
            "the head has --lr, the embeddings are below the first layer"
        },
    )


@dataclass
class TransformerConfig(EncoderConfig):
    """Size and regularisation of a Transformer encoder."""

    encoder_ffn_embed_dim: int = field(
        default=768, metadata={"help": "inner width of the feed-forward network"}
    )
    encoder_attention_heads: int = field(
        default=32, metadata={"help": "attention heads H"}
    )
    attention_dropout: float = field(
        default=0.1, metadata={"help": "dropout on attention weights, 0 <= p < 1"}
    )
    act_dropout: float = field(
        default=0.0, metadata={"help": "dropout after the activation, 0 <= p < 1"}
    )


@dataclass
class VirtualNodeConfig(TransformerConfig):
    """A Transformer encoder over the nodes and a virtual node."""

    no_virtual_node: bool = field(
        default=False,
        metadata={"help": "nodes only; graphs are read out as the mean of their nodes"},
    )


class GraphModel(BaseFairseqModel):
    """An encoder of nodes, and a head on graphs or on each node.

    Graphs are read out at the virtual node; where the encoder has none, from their
    nodes.

    Args:
        encoder: batch, perturb -> [B, N + 1, D] with the virtual node first, or
            [B, N, D].
        embed_dim: width D.
        head: [..., D] -> [..., C], C targets or classes.
        batch_spec: the batch fields that the encoder reads.
        level: `graph` or `node`: what is predicted.
        virtual_node: whether the encoder has one.
        readout: without it, `mean`, `sum` or `max` over the nodes of a graph.
    """

    def __init__(
        self,
        encoder: nn.Module,
        embed_dim: int,
        head: nn.Module,
        batch_spec: BatchSpec,
        level: str = "graph",
        virtual_node: bool = True,
        readout: str = "mean",
    ) -> None:
        super().__init__()
        check_choice("readout", readout, READOUTS)
        self.level = level
        self.readout = readout
        self.virtual_node = virtual_node
        if level == "graph" and not virtual_node:
            fields = batch_spec.fields | {"node_mask"}
            batch_spec = dataclasses.replace(batch_spec, fields=fields)
        self.encoder = encoder
        self.embed_dim = embed_dim
        self.head = head
        self.batch_spec = batch_spec
        self.translate: Optional[Callable[[Mapping[str, Tensor]], Any]] = None

    def forward(
        self, batch: dict[str, Tensor], perturb: Optional[Tensor] = None
    ) -> Tensor:
        """Predicts.

        Args:
            batch: the fields of `batch_spec`.
            perturb: [B, N, D], added to the encoded node features (FLAG).

        Returns:
            [B, C], or [B, N, C] at node level, where padded nodes have any values; in
            regression at the scale of training (standardised, or in the target's unit).
        """
        x = self.encoder(batch, perturb)
        if self.level == "node":
            return self.head(x[:, 1:] if self.virtual_node else x)
        if self.virtual_node:
            return self.head(x[:, 0])
        return self.head(read_out(x, batch["node_mask"], self.readout))

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], *args: Any, **kwargs: Any
    ):
        """Loads weights; see `BaseFairseqModel`.

        With `translate` set, the next weights to come are another run's, and pass
        through it. (fairseq's trainer gives a model those of `--finetune-from-model`,
        and the task, which knows what they were trained on, sets it.)
        """
        if self.translate is not None:
            state_dict, self.translate = self.translate(state_dict), None
        return super().load_state_dict(state_dict, *args, **kwargs)


def set_defaults(cfg: Any, **values: Any) -> None:
    """Gives a preset's values to the options that are not set yet."""
    for name, value in values.items():
        setattr(cfg, name, getattr(cfg, name, value))


def model_config(arch: str, **options: Any) -> Any:
    """Config of a registered architecture: its preset, and options that differ from it.

    Args:
        arch: name for `--arch`, e.g. `grpe_small`.
        **options: fields of the architecture's config.

    Raises:
        ValueError: unknown architecture or option.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        raise ValueError(
            f"unknown architecture {arch!r}; see python -m graphormer_plugin"
        )
    config_class = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]]
    known = {entry.name for entry in dataclasses.fields(config_class)}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise ValueError(
            f"{arch} has no option {unknown[0]!r}, expected {sorted(known)}"
        )
    preset = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](preset)
    return config_class(**vars(preset))


def build_model(
    arch: str, schema: FeatureSchema, targets: TargetSchema, **options: Any
) -> BaseFairseqModel:
    """Builds a registered architecture from Python, without fairseq's command line.

    Args:
        arch: name for `--arch`, e.g. `grpe_small`.
        schema: vocabularies of nodes and bonds, e.g. `GraphStore.schema`.
        targets: what is predicted, e.g. `GraphStore.targets`.
        **options: fields of the architecture's config that differ from the preset.

    Raises:
        ValueError: unknown architecture or option, or options that do not fit.
    """
    config = model_config(arch, **options)
    task = SimpleNamespace(schema=schema, targets=targets)
    model = ARCH_MODEL_REGISTRY[arch].build_model(config, task)
    # Imported here: `finetune` imports this module.
    from graphormer_plugin.finetune.layerwise import set_up_layers

    set_up_layers(model, config)
    return model
