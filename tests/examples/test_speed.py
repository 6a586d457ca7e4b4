"""The scripts of examples/speed that measure scale, with little; their committed tables."""

import importlib
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tsv
from ogb.utils import smiles2graph

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.data.store.store_shards import open_stores
from graphormer_plugin.models import build_model
from support.golden import golden_state, load_golden
from support.training import SMILES

SPEED = Path(__file__).parents[2] / "examples" / "speed"
sys.path.append(str(SPEED))  # the scripts import each other
SCRIPTS = {path.stem: importlib.import_module(path.stem) for path in SPEED.glob("*.py")}
graph_size, many_graphs, many_targets, released_grpe, time_to_accuracy = (
    SCRIPTS[name]
    for name in "graph_size many_graphs many_targets released_grpe time_to_accuracy".split()
)


@pytest.mark.parametrize("name", [n for n in SCRIPTS if hasattr(SCRIPTS[n], "main")])
def test_scripts_know_their_flags(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        SCRIPTS[name].main()
    assert capsys.readouterr().out.startswith("usage: ")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    rows = [f"{smiles},{len(smiles)}" for smiles in SMILES]
    (folder / "few.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    options = {"data_root": str(folder), "workers": 0, "progress": False}
    return get_store(DatasetOptions(name=str(folder / "few.csv"), **options))


@pytest.mark.parametrize("nodes", [1, 16, 300])
def test_joined_graph(store, nodes):
    """One component of exactly so many nodes, with edges in the order of a store."""
    columns = graph_size.joined_graph(store, nodes, seed=3)
    assert len(columns["x"]) == nodes
    ends = np.stack([columns["edge_src"], columns["edge_dst"]]).astype(np.int64)
    assert ends.shape[1] == columns["edge_offset"][1] == len(columns["edge_bond"])
    key = ends[0] * nodes + ends[1]
    assert (np.diff(key) > 0).all()
    assert sorted(ends[1] * nodes + ends[0]) == key.tolist()
    reached = np.arange(nodes) == 0
    for _ in range(nodes):
        reached[ends[1][reached[ends[0]]]] = True
    assert reached.all()


def test_stores_of_repeated_molecules(store, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(many_graphs, "get_store", lambda options: store)
    monkeypatch.setattr(many_graphs, "REPEATS", 2)
    folder = tmp_path / "stores"
    many_graphs.write_stores(folder, 1000, 2)
    found = open_stores(DatasetOptions(name=str(folder)))
    assert len(found) == 2 * 720 and found.schema == store.schema
    np.testing.assert_array_equal(found.sizes[:120], store.sizes)
    np.testing.assert_array_equal(found.labels(np.arange(120)), store.target)
    many_graphs.measure(folder, 0.5)
    assert "720 graphs in 1 stores: open 0." in capsys.readouterr().out


@pytest.mark.long
def test_steps_with_many_targets(monkeypatch, capsys, fresh_fairseq):
    monkeypatch.setattr(many_targets, "MOLECULES", 40)
    options = ["--arch", "grpe_tiny", "--targets", "3", "--updates", "1"]
    monkeypatch.setattr(sys, "argv", ["many_targets.py", *options])
    before = torch.get_num_threads()
    many_targets.main()
    torch.set_num_threads(before)
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [line.partition(" ")[0] for line in lines] == ["1", "3", "ratio"]


@pytest.mark.long
def test_table_and_plot(tmp_path):
    rows = tsv.read(SPEED / "graph_size.tsv")
    cases = itertools.product(graph_size.ARCHITECTURES, map(str, graph_size.SIZES))
    assert [(row["arch"], row["nodes"]) for row in rows] == [*cases]
    assert all(float(row["ms"]) > 0 and float(row["MiB"]) > 0 for row in rows)
    graph_size.draw(rows, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<?xml")


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


def test_released_grpe_computes_what_the_package_computes(store):
    """Outputs and gradients of equal weights, in float64."""
    rows = store.splits["train"][::7]
    schema, hops = store.schema, 3
    sizes = {"encoder_layers": 2, "max_hop": hops, "encoder_ffn_embed_dim": 24}
    ours = build_model("grpe_tiny", schema, store.targets, **sizes).double().eval()
    for parameter in ours.parameters():  # every term counts
        torch.nn.init.normal_(parameter, std=0.4)
    types = schema.num_bond_types
    twin = released_grpe.ReleasedGRPE(
        ours.encoder.node_encoder.table_rows,
        types,
        num_layer=2,
        d_model=64,
        dim_feedforward=24,
        max_hop=hops,
        paper=True,
    )
    twin.double().eval().load_state_dict(
        released_grpe.weights_of(ours.state_dict(), hops, types)
    )
    collator = GraphCollator(
        store.columns, store.target, num_bond_types=types, spec=ours.batch_spec
    )
    graphs = released_grpe.graphs_of(store.columns, store.target)
    out = ours(collator(rows)["net_input"]["batch"])
    expected = twin(released_grpe.pad([graphs[row] for row in rows]))
    assert (out - expected).abs().max() < 1e-10
    for values in (out, expected):
        values.square().sum().backward()
    gradients = {name: value.grad for name, value in ours.named_parameters()}
    gradients = released_grpe.weights_of(gradients, hops, types)
    for name, parameter in twin.named_parameters():
        scale = 1 + parameter.grad.abs().max()
        assert (parameter.grad - gradients[name]).abs().max() < 1e-10 * scale, name


@pytest.fixture
def words(tmp_path):
    """Flags of a short training, but for the number of epochs."""
    rows = [f"{smiles},{len(smiles) / 9}" for smiles in SMILES]
    (tmp_path / "few.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    words = f"--dataset-name {tmp_path}/few.csv --data-root {tmp_path} --cpu "
    return (words + "--encoder-layers 1 --num-workers 0 --max-epoch").split()


@pytest.mark.long
def test_the_released_computation_goes_on(tmp_path, words, capsys, fresh_fairseq):
    for epoch in (1, 2):
        more = [*words, str(epoch)]
        time_to_accuracy.train_released(time_to_accuracy.flags(1, tmp_path, more))
        stats = json.loads(capsys.readouterr().out)
        assert stats["epoch"] == epoch and 0 < stats["valid_mae"] < 10


@pytest.mark.slow
def test_time_to_accuracy(tmp_path, words, monkeypatch, capsys):
    """An epoch of each training, in processes of their own."""
    script = time_to_accuracy
    monkeypatch.setattr(sys, "argv", ["script", str(tmp_path), *words, "1"])
    script.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].startswith("ratio of ") and " after 1 epochs" in printed[-3]
    rows = script.read(tmp_path / "time_to_accuracy.tsv")
    systems = [(row["system"], row["epoch"]) for row in rows]
    assert systems == [(script.OURS, 1), (script.RELEASED, 1)]
    assert (tmp_path / "time_to_accuracy.svg").read_text().startswith("<?xml")
