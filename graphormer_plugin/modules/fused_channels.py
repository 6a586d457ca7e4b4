"""The attention of CGT as one Triton kernel for each direction; not yet run on a GPU.

A program takes a block of whole heads and goes through the senders of a receiver in tiles,
with an online softmax for each channel. E^att and E^val are made for one tile at a time, from
the features of its pairs, and the backward pass makes them again: no [B, N, N, D] is in
memory. Sums over receivers and graphs have a fixed order.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphormer_plugin.modules.derivatives import differentiable_by

DEVICES = ["cuda"]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# With these numbers the kernels, compiled for an H100, keep their sums in registers.
SENDERS = 16  # a tile
LANES = 64  # least number of channels a program
WIDEST_HEAD = 128  # channels
MOST_FEATURES = {2: 64, 4: 32}  # a pair, by the bytes of a number
WARPS = 8
PARTS = 128  # a batch; each has a sum of the gradients of the maps


def reason_against(v: Tensor, base: Tensor, att: Tensor) -> str:
    """Why the kernels do not take scores [B, N or 1, N, H], values [B, N, D] and a map [F, D];
    empty if they do."""
    if v.device.type not in DEVICES:
        return "it needs a GPU"
    if v.dtype not in DTYPES:
        return f"it does not compute in {v.dtype}"
    if (channels := v.shape[2] // base.shape[3]) > WIDEST_HEAD:
        return f"a head has {channels} channels, expected at most {WIDEST_HEAD}"
    most = MOST_FEATURES[v.dtype.itemsize]
    if len(att) > most:
        return f"a pair has {len(att)} features, expected at most {most} in {v.dtype}"
    return ""


def fused_channels(formula: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
    """`filter_messages` of base, v, features, att, val and keep -> [B, N, D] in the type of v;
    features and keep get no gradients.

    Args:
        formula: the same in operations of torch, of the same tensors.
    """
    return _FusedChannels.apply(formula, *tensors)


class _FusedChannels(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, base, v, features, att, val, keep):
        """[B, N, D]; see `fused_channels`."""
        inputs = base, v, features, att, val, keep
        out = torch.empty(v.shape, dtype=torch.float32, device=v.device)
        logs = torch.empty_like(out)  # of each softmax's denominator
        kernel = _Kernel(*inputs)
        B, N, _ = v.shape
        with torch.cuda.device_of(v):  # autograd does the same in the backward pass
            _forward[N, B, kernel.blocks](*kernel.tensors, out, logs, **kernel.sizes)
        ctx.options = options
        ctx.save_for_backward(*inputs, out, logs)
        return out.to(v.dtype)

    @staticmethod
    @differentiable_by(lambda formula, *tensors: formula(*tensors))
    def backward(ctx, grad):
        """Gradients of base, v, att and val."""
        *inputs, out, logs = ctx.saved_tensors
        base, v, _, att, val, _ = inputs
        kernel = _Kernel(*inputs)
        parts = min(len(v), PARTS)
        # The kernel writes each element of these once.
        shapes = base.shape, v.shape, (parts, *att.shape), (parts, *att.shape)
        of_base, of_v, of_att, of_val = map(out.new_empty, shapes)
        _backward[parts, kernel.blocks](
            *(*kernel.tensors, out, logs, grad.contiguous()),
            *(of_base, of_v, of_att, of_val, len(v)),
            **kernel.sizes,
        )
        of_maps = (
            None if x is None else of_x.sum(0).to(x.dtype)
            for x, of_x in ((att, of_att), (val, of_val))
        )
        return None, of_base.to(base.dtype), of_v.to(v.dtype), None, *of_maps, None


class _Kernel:
    """Tensors and sizes as the kernels take them."""

    def __init__(
        self,
        base: Tensor,
        v: Tensor,
        features: Tensor,
        att: Tensor,
        val: Tensor | None,
        keep: Tensor | None,
    ) -> None:
        number, width = att.shape
        heads = base.shape[3]
        channels = triton.next_power_of_2(width // heads)
        together = max(1, LANES // channels)
        self.blocks = triton.cdiv(heads, together)
        features, att = features.to(v.dtype), att.to(v.dtype)
        val_map = att if val is None else val.to(v.dtype)
        kept = features if keep is None else keep
        tensors = (base, v, features, att, val_map, kept)
        self.tensors = [x.contiguous() for x in tensors]
        self.sizes: dict[str, Any] = {
            "N": v.shape[1],
            "H": heads,
            "F": number,
            "D": width,
            "HAS_VAL": val is not None,
            "HAS_KEEP": keep is not None,
            "SHARED": base.shape[1] != v.shape[1],
            "TILE": SENDERS,
            "FEATURES": max(16, triton.next_power_of_2(number)),
            "HEADS": together,
            "CHANNELS": channels,
            "num_warps": WARPS,
        }


@triton.jit
def _lanes(block, H, D, HEADS: tl.constexpr, CHANNELS: tl.constexpr):
    """Channel and head of each lane of a block of heads, and whether there is one."""
    lane = tl.arange(0, HEADS * CHANNELS)
    head = block * HEADS + lane // CHANNELS
    within = lane % CHANNELS
    return head * (D // H) + within, head, (head < H) & (within < D // H)


@triton.jit
def _forward(
    base,
    v,
    features,
    att,
    val,
    keep,
    out,
    logs,
    N,
    H,
    F,
    D,
    HAS_VAL: tl.constexpr,
    HAS_KEEP: tl.constexpr,
    SHARED: tl.constexpr,
    TILE: tl.constexpr,
    FEATURES: tl.constexpr,
    HEADS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """A block of heads of one receiver."""
    receiver = tl.program_id(0)
    graph = tl.program_id(1).to(tl.int64)
    channel, head, is_channel = _lanes(tl.program_id(2), H, D, HEADS, CHANNELS)
    feature = tl.arange(0, FEATURES)
    is_feature = feature < F
    entry = feature[:, None] * D + channel
    is_entry = is_feature[:, None] & is_channel
    att_map = tl.load(att + entry, is_entry, 0.0)
    val_map = tl.load(val + entry, is_entry, 0.0)

    largest = tl.full([HEADS * CHANNELS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS * CHANNELS], tl.float32)
    result = tl.zeros([HEADS * CHANNELS], tl.float32)
    for first in range(0, N, TILE):
        sender = first + tl.arange(0, TILE)
        is_sender = sender < N
        is_value = is_sender[:, None] & is_channel
        pair = (graph * N + receiver) * N + sender
        row = pair
        if SHARED:
            row = graph * N + sender
        x = tl.load(
            features + pair[:, None] * F + feature, is_sender[:, None] & is_feature, 0.0
        )
        score = tl.load(base + row[:, None] * H + head, is_value, 0.0)
        logits = tl.dot(x, att_map, input_precision="ieee") + score
        logits = tl.where(is_sender[:, None], logits, float("-inf"))
        value = (graph * N + sender)[:, None] * D + channel
        messages = tl.load(v + value, is_value, 0.0).to(tl.float32)
        if HAS_VAL:
            messages += tl.dot(x, val_map, input_precision="ieee")

        larger = tl.maximum(largest, tl.max(logits, 0))
        scale = tl.exp(largest - larger)
        weights = tl.exp(logits - larger)
        total = total * scale + tl.sum(weights, 0)
        if HAS_KEEP:
            weights *= tl.load(keep + pair, is_sender, 0.0).to(tl.float32)[:, None]
        result = result * scale + tl.sum(weights * messages, 0)
        largest = larger
    place = (graph * N + receiver) * D + channel
    tl.store(out + place, result / total, is_channel)
    tl.store(logs + place, largest + tl.log(total), is_channel)


@triton.jit
def _backward(
    base,
    v,
    features,
    att,
    val,
    keep,
    out,
    logs,
    grad,
    of_base,
    of_v,
    of_att,
    of_val,
    B,
    N,
    H,
    F,
    D,
    HAS_VAL: tl.constexpr,
    HAS_KEEP: tl.constexpr,
    SHARED: tl.constexpr,
    TILE: tl.constexpr,
    FEATURES: tl.constexpr,
    HEADS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """A block of heads of all receivers in a part of the graphs."""
    part = tl.program_id(0)
    block = tl.program_id(1)
    channel, head, is_channel = _lanes(block, H, D, HEADS, CHANNELS)
    heads = block * HEADS + tl.arange(0, HEADS)
    feature = tl.arange(0, FEATURES)
    is_feature = feature < F
    entry = feature[:, None] * D + channel
    is_entry = is_feature[:, None] & is_channel
    att_map = tl.load(att + entry, is_entry, 0.0)
    val_map = tl.load(val + entry, is_entry, 0.0)

    att_sum = tl.zeros([FEATURES, HEADS * CHANNELS], tl.float32)
    val_sum = tl.zeros([FEATURES, HEADS * CHANNELS], tl.float32)
    parts = tl.num_programs(0)
    start = part * B // parts
    for number in range(0, (part + 1) * B // parts - start):
        nodes = (start + number).to(tl.int64) * N
        for first in range(0, N, TILE):
            sender = first + tl.arange(0, TILE)
            is_sender = sender < N
            is_value = is_sender[:, None] & is_channel
            is_score = is_sender[:, None] & (heads < H)
            value = (nodes + sender)[:, None] * D + channel
            own = tl.load(v + value, is_value, 0.0).to(tl.float32)
            v_sum = tl.zeros([TILE, HEADS * CHANNELS], tl.float32)
            base_sum = tl.zeros([TILE, HEADS], tl.float32)
            for receiver in range(0, N):
                pair = (nodes + receiver) * N + sender
                row = pair
                if SHARED:
                    row = nodes + sender
                x = tl.load(
                    features + pair[:, None] * F + feature,
                    is_sender[:, None] & is_feature,
                    0.0,
                )
                place = (nodes + receiver) * D + channel
                change = tl.load(grad + place, is_channel, 0.0).to(tl.float32)
                mean = change * tl.load(out + place, is_channel, 0.0)
                log = tl.load(logs + place, is_channel, 0.0)
                score = tl.load(base + row[:, None] * H + head, is_value, 0.0)
                logits = tl.dot(x, att_map, input_precision="ieee") + score - log
                weights = tl.where(is_value, tl.exp(logits), 0.0)
                messages = own
                if HAS_VAL:
                    messages += tl.dot(x, val_map, input_precision="ieee")
                changes = tl.broadcast_to(change[None, :], messages.shape)
                if HAS_KEEP:
                    kept = tl.load(keep + pair, is_sender, 0.0).to(tl.float32)
                    changes = changes * kept[:, None]
                of_logits = weights * (messages * changes - mean)
                sent = weights * changes
                v_sum += sent
                of_heads = tl.sum(tl.reshape(of_logits, [TILE, HEADS, CHANNELS]), 2)
                if SHARED:
                    base_sum += of_heads
                else:
                    tl.store(of_base + row[:, None] * H + heads, of_heads, is_score)
                turned = tl.trans(x)
                att_sum += tl.dot(turned, of_logits.to(x.dtype), input_precision="ieee")
                if HAS_VAL:
                    val_sum += tl.dot(turned, sent.to(x.dtype), input_precision="ieee")
            tl.store(of_v + value, v_sum, is_value)
            if SHARED:
                row = nodes + sender
                tl.store(of_base + row[:, None] * H + heads, base_sum, is_score)
    entry += part * F * D
    tl.store(of_att + entry, att_sum, is_entry)
    if HAS_VAL:
        tl.store(of_val + entry, val_sum, is_entry)
