"""Predictions with matrix products in bfloat16."""

import numpy as np
import pytest
import torch
from torch import nn

from graphormer_plugin import hub
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference import bfloat16
from graphormer_plugin.models import build_model
from graphormer_plugin.modules.attention.biased import BiasedAttention
from support.architectures import OGB

TARGETS = TargetSchema.of(["gap"], unit="eV", mean=[5.0], std=[2.0])
SMILES = ["CCO", "c1ccccc1C(=O)[O-].[Na+]", "C", "CC(C)(C)C#N", "NCC(=O)O", "C1CC1F"]
ARCHITECTURES = [
    *["grpe_tiny", "graphormer_slim", "cgt_zinc", "gt_zinc"],
    *["gcn", "gin", "gine", "gat", "gatedgcn", "graphsage", "pna", "mpnn"],
]


def predictor(arch, **options):
    torch.manual_seed(1)
    model = build_model(arch, OGB, TARGETS, encoder_layers=2, **options)
    return hub.Predictor([hub.Member(model, OGB, TARGETS, OGBFeaturiser())])


@pytest.fixture(autouse=True)
def processor(monkeypatch):
    """torch computes in bfloat16 on any processor, slowly where it lacks it."""
    monkeypatch.setattr(bfloat16, "has_bfloat16", lambda device: True)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_close_to_float32(arch):
    one, half = predictor(arch), predictor(arch).bfloat16()
    expected, vectors = one.predict(SMILES), one.embed(SMILES)
    found = half.predict(SMILES)
    assert not np.array_equal(found, expected)
    assert np.abs(found - expected).max() < 0.1 * np.ptp(expected)
    found = half.embed(SMILES)
    assert found.dtype == np.float32
    assert np.abs(found - vectors).max() < 0.03 * np.abs(vectors).max()


def test_matrix_products_are_in_bfloat16_and_the_head_is_not():
    half = predictor("grpe_tiny").bfloat16()
    types = {}
    for name, module in half.model.named_modules():
        if isinstance(module, (nn.Linear, nn.LayerNorm)):
            module.register_forward_hook(
                lambda _, inputs, output, name=name: types.update({name: output.dtype})
            )
    half.predict(SMILES)
    linear = {t for name, t in types.items() if "proj" in name or ".fc" in name}
    assert linear == {torch.bfloat16}
    assert types["encoder.final_norm"] == torch.float32
    assert {t for n, t in types.items() if n.startswith("head")} == {torch.float32}
    assert not torch.is_autocast_enabled("cpu")


def test_refused_where_it_would_be_slower(monkeypatch):
    monkeypatch.undo()
    capabilities = {"avx512_bf16": False, "amx_bf16": False, "avx2": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    with pytest.raises(ValueError, match="slower than float32: this CPU has no"):
        predictor("grpe_tiny").bfloat16()
    capabilities["amx_bf16"] = True
    predictor("grpe_tiny").bfloat16()


def test_the_bias_is_cast_once_for_all_layers(monkeypatch):
    half = predictor("graphormer_slim").bfloat16()
    types, forward = [], BiasedAttention.forward
    monkeypatch.setattr(
        BiasedAttention,
        "forward",
        lambda layer, x, bias, *more: types.append(bias.dtype)
        or forward(layer, x, bias, *more),
    )
    half.predict(SMILES)
    assert types == [torch.bfloat16] * 2
