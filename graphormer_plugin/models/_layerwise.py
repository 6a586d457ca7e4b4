"""The layer of each weight, to freeze layers and to set learning rates layer by layer."""

import logging

from graphormer_plugin.choices import check_least
from graphormer_plugin.models._base import EncoderConfig, GraphModel

logger = logging.getLogger(__name__)


def apply_layerwise_options(model: GraphModel, cfg: EncoderConfig) -> None:
    """Freeze weights, set their learning rates, relative to `--lr`, and switch on
    activation checkpointing."""
    if getattr(cfg, "checkpoint_activations", False):
        model.encoder.checkpoint_activations = True
    frozen = cfg.freeze_encoder_layers
    decay = cfg.layerwise_lr_decay
    check_least("--freeze-encoder-layers", frozen, 0)
    if not 0 < decay <= 1:
        raise ValueError(f"--layerwise-lr-decay {decay}: expected above 0, at most 1")
    if not frozen and decay == 1:
        return
    count = len(model.encoder.layers)
    if frozen > count:
        raise ValueError(
            f"--freeze-encoder-layers {frozen}, but the encoder has {count} layers"
        )
    layers = weight_layers(model)
    for name, parameter in model.named_parameters():
        if frozen and layers[name] <= frozen:
            parameter.requires_grad = False
        # The name that fairseq's own models use, which its fp16 optimiser carries over.
        scale = decay ** (count + 1 - layers[name])
        parameter.optim_overrides = {"optimizer": {"lr_scale": scale}}
    if frozen:
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        logger.info(
            "embeddings and %d of %d layers are frozen, %s weights are trained",
            frozen,
            count,
            f"{trained:,}",
        )
    if decay != 1:
        logger.info(
            "learning rate: 1 in the head, %g in layer %d, ..., %g in the embeddings, "
            "times --lr",
            decay,
            count,
            decay ** (count + 1),
        )


def weight_layers(model: GraphModel) -> dict[str, int]:
    """Layer of every weight by name: 0 embeddings and encodings that all layers share,
    1..L the encoder's layers, L + 1 the final norm and the head."""
    encoder = model.encoder
    count = len(encoder.layers)
    layers = {id(weight): 0 for weight in encoder.parameters()}
    for index in range(count):
        for module in encoder.layer_modules(index):
            layers |= {id(weight): index + 1 for weight in module.parameters()}
    for module in encoder.modules_after_layers():
        layers |= {id(weight): count + 1 for weight in module.parameters()}
    return {
        name: layers.get(id(weight), count + 1)
        for name, weight in model.named_parameters()
    }
