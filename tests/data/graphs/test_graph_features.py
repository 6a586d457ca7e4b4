"""Columns of a table and descriptors, as numbers of graphs that join the output layer."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.graphs.descriptors import PREFIX, rdkit_descriptors
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.store.translate import translate_columns
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.embedding import output_and_vectors
from graphormer_plugin.models import build_model

SMILES = ["CCO", "CCCl.Cl", "c1ccccc1", "CCN", "CC", "CCC"]
PH = [1.0, 3.0, np.nan, 5.0, 100.0, 2.0]
SPLITS = ["train", "train", "train", "train", "valid", "test"]


@pytest.fixture
def options(tmp_path):
    cells = zip(SMILES, range(6), PH, [7] * 6, SPLITS)
    lines = [",".join(map(str, row)) for row in cells]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["smiles,y,pH,same,split", *lines]) + "\n")

    def make(**more):
        named = {"target_columns": "y", "extra_columns": "pH,same", **more}
        return DatasetOptions(str(path), **named)

    return make


def test_columns(options):
    """Mean and deviation are those of the training rows with a value."""
    store = get_store(options())
    schema = store.schema
    assert schema.graph_features == ["pH", "same"]
    assert schema.graph_mean == pytest.approx([3, 7])
    assert schema.graph_std == pytest.approx([np.std([1, 3, 5]), 1])
    scaled = schema.scale_graph_features(store.columns["graph_features"])
    expected = np.array([-2, 0, 0, 2, 0, -1]) / np.std([1, 3, 5])
    expected[4] = 5  # 100 is cut
    np.testing.assert_allclose(scaled[:, 0], expected, rtol=1e-6)
    assert not scaled[:, 1].any()


@pytest.mark.parametrize("largest_fragment", [False, True])
def test_descriptors(options, largest_fragment):
    more = {"descriptors": True, "largest_fragment": largest_fragment}
    store = get_store(options(extra_columns="pH", **more))
    names = store.schema.graph_features
    assert names[0] == "pH" and names[1].startswith(PREFIX)
    smiles = [s.removesuffix(".Cl") if largest_fragment else s for s in SMILES]
    expected = rdkit_descriptors(smiles).astype(np.float32)
    np.testing.assert_array_equal(store.columns["graph_features"][:, 1:], expected)


def test_other_columns_than_those_of_the_checkpoint(options):
    store = get_store(options(extra_columns=""))
    assert "graph_features" not in store.columns
    schema = get_store(options()).schema
    with pytest.raises(ValueError, match="t.csv has --extra-columns .* on .'pH'"):
        translate_columns(store, schema, "t.csv")


@pytest.mark.parametrize("arch", ["grpe_tiny", "cgt_small", "gin"])
def test_models(options, arch):
    """A linear map of them is added to the output, and has a gradient."""
    store = get_store(options())
    model = build_model(arch, store.schema, store.targets)
    model.eval()
    assert not model.joined.weight.any()
    columns = translate_columns(store, store.schema, "t.csv")
    kinds = {"num_bond_types": store.schema.num_bond_types, "spec": model.batch_spec}
    sample = GraphCollator(columns, store.target, **kinds)(np.arange(6))
    batch = sample["net_input"]["batch"]
    before = model(**sample["net_input"])
    torch.nn.init.ones_(model.joined.weight)
    after = model(batch)
    numbers = torch.tensor(columns["graph_features"].sum(1)[:, None])
    torch.testing.assert_close((after - before).double(), numbers, rtol=1e-4, atol=1e-5)
    after.sum().backward()
    assert model.joined.weight.grad[0, 0] != 0


SCHEMA = FeatureSchema(
    1, [3], [4], graph_features=["pH"], graph_mean=[0.0], graph_std=[1.0]
)
SIZES = {"encoder_layers": 1, "encoder_embed_dim": 16}


def batch_of(numbers, nodes):
    """Graphs without edges that have these numbers."""
    size = len(numbers)
    return {
        "x": torch.zeros(size, nodes, 1, dtype=torch.long),
        "node_mask": torch.ones(size, nodes, dtype=torch.bool),
        "edge_index": torch.zeros(2, 0, dtype=torch.long),
        "node_graph": torch.arange(size).repeat_interleave(nodes),
        "graph_features": torch.tensor(numbers).double()[:, None],
    }


@torch.no_grad()
def test_each_node_has_the_numbers_of_its_graph():
    targets = TargetSchema.of(["y"], kind="multiclass", level="node", num_classes=2)
    model = build_model("gcn", SCHEMA, targets, **SIZES).eval()
    torch.nn.init.constant_(model.joined.weight, 1.0)
    zero = model(batch_of([0.0], 3))
    for numbers in ([1.0, 2.0, 3.0], [5.0, 6.0]):  # as many graphs as nodes, and fewer
        added = model(batch_of(numbers, 3)) - zero
        assert added.shape == (len(numbers), 3, 2)
        wanted = torch.tensor(numbers)[:, None, None].expand_as(added)
        torch.testing.assert_close(added, wanted)


@torch.no_grad()
def test_clamped_after_they_are_added():
    for arch in ("gcn", "gin"):  # heads of the last layer and of all layers
        plain = build_model(arch, SCHEMA, TargetSchema.of(["y"]), **SIZES)
        model = build_model(
            arch, SCHEMA, TargetSchema.of(["y"]), clamp_max=20.0, **SIZES
        )
        torch.nn.init.constant_(plain.joined.weight, 5.0)
        model.load_state_dict(plain.state_dict())
        batch = batch_of([-100.0, 1.0, 100.0], 1)
        sums = plain.eval()(batch)
        assert sums[0] < 0 < sums[1] < 20 < sums[2]
        assert model.eval()(batch=batch).equal(sums.clamp(0, 20))
        assert output_and_vectors(model, batch)[0].equal(model(batch))
