"""examples/speed: all scripts are imported; the released GRPE that two of them time."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ogb.utils import smiles2graph

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.models import build_model
from support.golden import golden_state, load_golden
from support.training import SMILES

SPEED = Path(__file__).parents[2] / "examples" / "speed"
sys.path.append(str(SPEED))  # the scripts import each other
SCRIPTS = {path.stem: importlib.import_module(path.stem) for path in SPEED.glob("*.py")}
released_grpe = SCRIPTS["released_grpe"]


@torch.no_grad()
@pytest.mark.parametrize("name", ["grpe_shared", "grpe_independent"])
def test_released_grpe_is_the_released_one(name):
    archive = load_golden(name)
    config = json.loads(str(archive["config"]))
    sizes = "num_task num_layer d_model nhead dim_feedforward max_hop".split()
    model = released_grpe.ReleasedGRPE(
        [512] * 9,
        config["num_edge_type"],
        independent=config["use_independent_token"],
        **{size: config[size] for size in sizes},
    )
    model.double().eval().load_state_dict(golden_state(archive))
    graphs = []
    for smiles in archive["smiles"]:
        graph = smiles2graph(str(smiles))
        types = graph["edge_feat"] @ np.array([1, 4, 16])
        ends = graph["edge_index"]
        graphs.append(
            released_grpe.graph_of(graph["node_feat"], ends, types, np.zeros(1))
        )
    out = model(released_grpe.pad(graphs)).numpy()
    assert np.abs(out - archive["output"]).max() < 1e-9


def test_released_grpe_computes_what_the_package_computes(tmp_path):
    """Outputs of equal weights, in float64."""
    rows = [f"{smiles},{len(smiles)}" for smiles in SMILES[::7]]
    path = tmp_path / "few.csv"
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    options = {"data_root": str(tmp_path), "workers": 0, "progress": False}
    store = get_store(DatasetOptions(name=str(path), **options))
    schema, hops = store.schema, 3
    sizes = {"encoder_layers": 2, "max_hop": hops, "encoder_ffn_embed_dim": 24}
    ours = build_model("grpe_tiny", schema, store.targets, **sizes).double().eval()
    for parameter in ours.parameters():  # every term counts
        torch.nn.init.normal_(parameter, std=0.4)
    types = schema.num_bond_types
    sizes = {"num_layer": 2, "d_model": 64, "dim_feedforward": 24, "max_hop": hops}
    node_rows = ours.encoder.node_encoder.table_rows
    twin = released_grpe.ReleasedGRPE(node_rows, types, paper=True, **sizes)
    weights = released_grpe.weights_of(ours.state_dict(), hops, types)
    twin.double().eval().load_state_dict(weights)
    collator = GraphCollator(
        store.columns, store.target, num_bond_types=types, spec=ours.batch_spec
    )
    out = ours(collator(range(len(rows)))["net_input"]["batch"])
    graphs = released_grpe.graphs_of(store.columns, store.target)
    assert (out - twin(released_grpe.pad(graphs))).abs().max() < 1e-10
