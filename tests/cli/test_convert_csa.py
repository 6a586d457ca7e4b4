"""A tiny CSA under the names of its released code, next to what it computes."""

import json

import numpy as np
import pytest
import torch
from ogb.utils import smiles2graph
from torch_geometric.data import Data

from graphormer_plugin import hub
from graphormer_plugin.cli import convert
from graphormer_plugin.data.graphs.smiles import feature_dims
from support.golden import GOLDEN

D, H, LAYERS, STEPS, PE = 16, 2, 2, 3, 4
ATOMS, BONDS = feature_dims()
SMILES = ["CCO", "C", "C1CC1CC(=O)O", "[Na+].[Cl-]", "c1ccc2ccccc2c1"]
CASES = {
    "zinc": dict(columns=False, node_walks=True, relative="rwse", shared=True),
    "zinc, mean": dict(columns=False, node_walks=True, relative="rwse", pool="mean"),
    "pcqm4m": dict(columns=True, relative="spde", shared=True, rings=6, pool="mean"),
    "not shared": dict(columns=True, node_walks=True, relative="spde", rings=6),
    "no relative": dict(columns=True, relative=None, act="gelu", pool="max"),
}


class Released:
    """Weights at random."""

    def __init__(
        self,
        columns,
        relative,
        node_walks=False,
        shared=False,
        rings=0,
        pool="add",
        act="relu",
    ):
        self.columns, self.rings, self.pool, self.act = columns, rings, pool, act
        generator = torch.Generator().manual_seed(0)
        self.state = {}

        def draw(name, *shape):
            value = 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64)
            self.state[f"model.{name}"] = value

        def linear(name, before, after, bias=True):
            draw(f"{name}.weight", after, before)
            if bias:
                draw(f"{name}.bias", after)

        def norm(name, width):
            for kind in ("weight", "bias", "running_mean", "running_var"):
                draw(f"{name}.{kind}", width)
            self.state[f"model.{name}.running_var"].abs_().add_(0.5)
            self.state[f"model.{name}.num_batches_tracked"] = torch.tensor(3)

        def tables(one, several, dims, width):
            if not columns:
                draw(f"{one}.weight", dims[0], width)
            else:
                for column, dim in enumerate(dims):
                    draw(f"{several}.{column}.weight", dim, width)

        nodes, edges = "encoder.node_encoder.", "encoder.edge_encoder."
        first = f"{nodes}encoder1." if node_walks else nodes
        width = D - PE if node_walks else D
        tables(f"{first}encoder", f"{first}atom_embedding_list", ATOMS, width)
        if node_walks:
            norm(f"{nodes}encoder2.raw_norm", STEPS)
            linear(f"{nodes}encoder2.pe_encoder", STEPS, PE)
        types = f"{edges}type_encoder."
        half = D // 2 if relative else D
        tables(f"{types}0.encoder", f"{types}0.bond_embedding_list", BONDS, half)
        draw(f"{types}1.encoder.weight", 3, half)
        if rings:
            draw(f"{types}2.encoder.weight", 3, half)
        if relative == "rwse":
            linear(f"{edges}encoder2.encoder", STEPS, half)
        elif relative:
            draw(f"{edges}encoder2.encoder.weight", STEPS + 2, half)
        if shared:
            for part in ("attention", "value"):
                linear(f"{edges}shared_edge_encoder.{part}_encoder", D, D)
        for number in range(LAYERS):
            layer = f"layers.{number}."
            for part in ("Q", "K", "V", *(() if shared else ("E_att", "E_value"))):
                linear(f"{layer}self_attn.{part}", D, D, bias=False)
            linear(f"{layer}linear_attn", D, D)
            for part in ("norm1_local", "norm1_attn", "norm2"):
                norm(layer + part, D)
            linear(f"{layer}ff_linear1", D, 2 * D)
            linear(f"{layer}ff_linear2", 2 * D, D)
        for number, (before, after) in enumerate([(D, 8), (8, 8), (8, 2)]):
            linear(f"post_mp.FC_layers.{number}", before, after)

    @property
    def config(self):
        config = {"n_heads": H, "graph_pooling": self.pool, "act": self.act}
        return config | ({"rings_max_length": self.rings} if self.rings else {})


def run(tmp_path, state, config):
    torch.save({"model_state": state, "optimizer_state": {}}, tmp_path / "in.pt")
    (tmp_path / "config.json").write_text(json.dumps(config))
    files = [str(tmp_path / name) for name in ("in.pt", "out.pt", "config.json")]
    return convert.main(["--from", "csa", *files[:2], "--config", files[2]])


def test_the_weights_are_as_many_as_the_released_ones(monkeypatch):
    """347,557 on ZINC, with its head of 64, 32, 16 and one output."""
    sizes = {"D": 64, "LAYERS": 10, "STEPS": 20, "PE": 28, "ATOMS": [28], "BONDS": [4]}
    for name, value in sizes.items():
        monkeypatch.setitem(globals(), name, value)
    released = Released(**CASES["zinc"])
    left_out = ("running_", "num_batches_tracked", "post_mp")
    count = sum(
        value.numel()
        for name, value in released.state.items()
        if not any(part in name for part in left_out)
    )
    assert count + 65 * 32 + 33 * 16 + 17 == 347_557


@torch.no_grad()
@pytest.mark.parametrize("case", CASES)
def test_equals_the_released_model(case, tmp_path):
    released = Released(**CASES[case])
    assert run(tmp_path, released.state, released.config) == 0
    predictor = hub.load(tmp_path / "out.pt")
    inputs = SMILES
    if not released.columns:  # one column of atoms and of bonds
        inputs = [
            Data(
                x=torch.from_numpy(graph["node_feat"][:, :1]),
                edge_index=torch.from_numpy(graph["edge_index"]),
                edge_attr=torch.from_numpy(graph["edge_feat"][:, :1]),
            )
            for graph in map(smiles2graph, SMILES)
        ]
    expected = np.load(GOLDEN / "csa_models.npz")[case]
    assert np.abs(predictor.predict(inputs) - expected).max() <= 1e-9


HEAD = [f"model.post_mp.FC_layers.{n}." for n in range(3)]
NO_HEAD = {name + kind: None for name in HEAD for kind in ("weight", "bias")}


@pytest.mark.parametrize(
    "change, config, message",
    [
        ({}, {"n_heads": None}, "do not show n_heads"),
        ({}, {"graph_pooling": None}, "do not show graph_pooling"),
        ({}, {"graph_pooling": "sum"}, "unknown graph_pooling 'sum', expected add|"),
        ({}, {"rings_max_length": None}, "do not show rings_max_length"),
        ({}, {"rings_coalesce_edges": True}, "rings_coalesce_edges True, the weights"),
        ({}, {"layers": 5}, "the config says layers 5, the weights have 2"),
        (NO_HEAD, {}, "no weight 'post_mp.FC_layers"),
        ({"model.pre_mp.weight": torch.zeros(1)}, {}, "are unknown: pre_mp.weight"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, capsys, change, config, message):
    released = Released(**CASES["pcqm4m"])
    state, config = released.state | change, released.config | config
    state, config = (
        {name: value for name, value in one.items() if value is not None}
        for one in (state, config)
    )
    assert run(tmp_path, state, config) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out.pt").exists()
