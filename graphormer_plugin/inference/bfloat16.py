"""Matrix products of a trained model in bfloat16, all other operations as before."""

import torch
from torch import Tensor, nn

from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.encodings.attn_bias import AttnBias


def multiply_in_bfloat16(model: GraphModel) -> None:
    """Let the encoder's layers multiply matrices in bfloat16 (torch's automatic mixed
    precision).

    The sum over the layers, the encodings before them, and the head stay in the type of
    the weights.
    """
    device = next(model.parameters()).device
    if not has_bfloat16(device):
        raise ValueError(
            f"bfloat16 would be slower than float32: this {device.type.upper()} has no "
            "instructions for it (avx512_bf16 or amx_bf16 among a processor's flags)"
        )
    in_bfloat16 = torch.autocast(device.type, torch.bfloat16)
    for layer in model.encoder.layers:
        layer.forward = in_bfloat16(layer.forward)
    for module in model.modules():
        if isinstance(module, AttnBias):
            module.register_forward_hook(_in_bfloat16)


def _in_bfloat16(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
    """The output as the layers take it, cast once for all of them."""
    return output.to(torch.bfloat16)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16; True where torch does not say."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(has for name, has in capabilities.items() if "bf16" in name)
