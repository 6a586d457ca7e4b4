"""`hub.Predictor` on graphs and SMILES, and embeddings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_smiles

from graphormer_plugin import hub
from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields.field_cache import load_or_compute
from graphormer_plugin.data.benchmarks import sbm
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.graphs.smiles import (
    PLAIN,
    OGBFeaturiser,
    feature_dims,
)
from graphormer_plugin.data.graphs.sources import Atoms
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import Domain, MoleculeDescription
from graphormer_plugin.estimators.prediction import Prediction, SpreadScale, in_unit
from graphormer_plugin.inference import graphs
from graphormer_plugin.models import build_model
from graphormer_plugin.tasks._dataset import GraphDataset
from support.architectures import OGB
from support.benchmark_files import write_zinc

TARGETS = TargetSchema.of(["gap"], unit="eV", mean=[5.0], std=[2.0])
SIZES = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_attention_heads": 2}
SMILES = ["CCO", "c1ccccc1C(=O)[O-].[Na+]", "C", "CC(C)(C)C#N"]


def predictor(arch="grpe_tiny", schema=OGB, targets=TARGETS, featuriser="ogb", **more):
    torch.manual_seed(1)
    model = build_model(arch, schema, targets, **{**SIZES, **more})
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    member = hub.Member(model, schema, targets, featuriser_named(featuriser))
    return hub.Predictor([member]).double()


def as_data(smiles):
    x, edge_index, edge_attr, *_ = PLAIN.read_row(smiles)
    arrays = {"x": x, "edge_index": edge_index, "edge_attr": edge_attr}
    tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
    return Data(**tensors, vocabulary="ogb")


def batch_of(store, predictor, rows):
    """The same graphs through the store and the training data path."""
    spec = predictor.model.batch_spec
    columns = dict(store.columns) | load_or_compute(store, spec)
    kinds = {"num_bond_types": store.schema.num_bond_types, "spec": spec}
    collator = GraphCollator(columns, store.target, **kinds)
    dataset = GraphDataset(rows, store.sizes, collator)
    return dataset.collater(list(range(len(rows))))["net_input"]["batch"]


@pytest.mark.parametrize(
    "arch, options",
    [
        ("grpe_tiny", {"encoder_attention_heads": 2}),
        ("gin", {}),  # reads all layers
        # It reads out after its head's hidden layers.
        ("cgt", {"encoder_attention_heads": 2, "node_encoding_dim": 4}),
        ("gcn_pcqm4m", {"clamp_max": 1.0}),
    ],
)
def test_the_domain_changes_no_prediction(arch, options):
    torch.manual_seed(1)
    sizes = {"encoder_layers": 2, "encoder_embed_dim": 16}
    model = build_model(arch, OGB, TARGETS, **sizes, **options)
    one = hub.Predictor([hub.Member(model, OGB, TARGETS, OGBFeaturiser())]).double()
    plain, vectors = one.predict(SMILES), one.embed(SMILES)
    one.member.domain = Domain.of(vectors, MoleculeDescription.of(SMILES))
    found = one.estimate(SMILES)
    np.testing.assert_allclose(found.values, plain, rtol=1e-9)
    np.testing.assert_allclose(found.in_domain, one.member.domain.score(vectors))
    assert one.is_fitted(one.read([SMILES[0], "CI"])).tolist() == [True, False]


def test_several_members():
    targets = TARGETS.changed(name=["log10 gap"]).scaled([0.1], [0.2])
    single = [predictor(arch, targets=targets) for arch in ("grpe_tiny", "gt_zinc")]
    members = [one.member for one in single]
    members[1].max_atoms = 9
    scale = SpreadScale(np.array([2.0]), np.array([0.0]))
    several = hub.Predictor(members, scale, [Scale.LOG])
    assert several.targets.names == ["gap"] and several.max_atoms == 9
    logs = [one.predict(SMILES) for one in single]
    combined = Prediction(np.mean(logs, 0), 2 * np.std(logs, 0, ddof=1))
    expected = in_unit(combined, several.targets, [Scale.LOG], several.interval)
    found = several.together(several.read(SMILES))
    np.testing.assert_allclose(found.values, expected.values)
    for ours, theirs in ((found.std, expected.std), (found.low, expected.low)):
        np.testing.assert_allclose(ours, theirs)
    np.testing.assert_allclose(several.predict(SMILES), expected.values)
    vectors = np.concatenate([one.embed(SMILES) for one in single], 1)
    np.testing.assert_array_equal(several.embed(SMILES), vectors)
    each = zip(
        several.embed(SMILES, nodes=True),
        *(x.embed(SMILES, nodes=True) for x in single),
    )
    for together, *parts in each:
        np.testing.assert_array_equal(together, np.concatenate(parts, 1))


def test_numbers_beside_the_molecule():
    """They are scaled as in training, and beyond its range the molecule is outside."""
    schema = replace(OGB, graph_features=["pH"], graph_mean=[7.0], graph_std=[2.0])
    one = predictor(schema=schema)
    numbers = np.array([[3.0], [7.0], [8.0], [9.5]])
    found = one.predict(SMILES, extra=numbers)
    plain = predictor(schema=replace(schema, graph_mean=[0.0], graph_std=[1.0]))
    expected = plain.predict(SMILES, extra=(numbers - 7) / 2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.ptp(one.predict(SMILES[:1] * 4, extra=numbers)) > 1e-3
    facts = MoleculeDescription.of(SMILES)
    one.member.domain = Domain.of(one.embed(SMILES), facts, extra=numbers)
    assert (one.estimate(SMILES, extra=numbers).in_domain > 0).all()
    beyond = one.estimate(SMILES, extra=[[2.9], [7], [9.6], [9]]).in_domain
    assert (beyond > 0).tolist() == [False, True, False, True]
    both = hub.Predictor([one.member, plain.member])
    assert both.typical_extra == [3.5] and one.typical_extra == [7]


def test_codes_are_checked_where_vocabularies_are_not_those_of_ogb():
    node_dims, bond_dims = feature_dims()
    narrow = FeatureSchema(9, [9, *node_dims[1:]], bond_dims)
    checked, unchecked = (predictor(schema=s).reader(9) for s in (narrow, OGB))
    for one, other in zip(checked("C=CN")[:3], unchecked("C=CN")[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="node 1 has 16 in column 0, expected 0..8"):
        checked("CCl")
    for element in range(119):
        symbol = Chem.GetPeriodicTable().GetElementSymbol(element)
        graph = unchecked(f"[{symbol}]" if element else "*")
        assert (graph.x < node_dims).all()


@pytest.mark.parametrize("arch", ["grpe_tiny", "gt_zinc", "cgt_zinc"])
def test_graphs_and_smiles_are_one(arch):
    more = {"node_encoding_dim": 4} if arch == "cgt_zinc" else {}
    one = predictor(arch, **more)
    expected = one.predict(SMILES)
    assert expected.shape == (4, 1) and np.ptp(expected) > 1e-3
    mixed = [as_data(SMILES[0]), SMILES[1], as_data(SMILES[2]), SMILES[3]]
    np.testing.assert_allclose(one.predict(mixed, batch_size=3), expected, atol=1e-9)
    np.testing.assert_allclose(
        one.embed(mixed, layers=2), one.embed(SMILES, layers=2), atol=1e-9
    )
    nodes = one.embed(SMILES, layers=2, nodes=True)
    assert [array.shape for array in nodes] == [(n, 32) for n in (3, 10, 1, 6)]
    alone = one.embed([SMILES[3]], layers=2, nodes=True)
    np.testing.assert_allclose(nodes[3], alone[0], atol=1e-6)
    assert one.embed(SMILES).dtype == np.float64
    assert one.predict([]).shape == (0, 1) and one.embed([], 2).shape == (0, 32)


@pytest.mark.parametrize("level", ["node", "link"])
@pytest.mark.parametrize("featuriser", ["ogb", "ogb_canonical"])
def test_parts_have_the_order_of_the_smiles(level, featuriser):
    """Both spellings have the same predictions for the same atoms."""
    targets = TargetSchema.of(["y"], "", "binary", level)
    one = predictor(targets=targets, featuriser=featuriser)
    found, reverse = one.predict(["CCO", "OCC"])
    assert found.shape == (3, 1) and np.ptp(found) > 1e-3
    np.testing.assert_allclose(found, reverse[::-1], atol=1e-9)
    parts = one.predicted_parts(one.read(["OCC"]))[0]
    np.testing.assert_allclose(parts[:, -1:], reverse, atol=1e-9)
    if level == "link":
        assert parts[:, :2].tolist() == [[0, 1], [0, 2], [1, 2]]
    assert one.predict([]) == []


def test_nodes_of_generated_graphs(tmp_path):
    """Node level: as the model itself says of batches of the store."""
    options = DatasetOptions(
        "pattern", source="generated:4", data_root=str(tmp_path), progress=False
    )
    store = get_store(options)
    assert store.featuriser == ""
    counts = {split: len(store.splits[split]) for split in ("train", "valid", "test")}
    made = list(sbm.PatternGraphs(counts, 1))
    graphs = [
        Data(x=torch.as_tensor(g.x), edge_index=torch.as_tensor(g.edge_index))
        for g in made
    ]
    one = predictor("gt_sbm", store.schema, store.targets, store.featuriser)
    with torch.no_grad():
        batch = batch_of(store, one, np.arange(len(made)))
        expected = one.model(batch).softmax(-1).numpy()
    found = one.predict(graphs, batch_size=2)
    for array, row, graph in zip(found, expected, made, strict=True):
        assert array.shape == (len(graph.x), 2)
        np.testing.assert_allclose(array, row[: len(array)], atol=1e-6)
    with pytest.raises(ValueError, match="the model: the checkpoint does not say"):
        one.reader()
    with pytest.raises(ValueError, match="SMILES 0, 'CCO': the checkpoint does not"):
        one.predict(["CCO"])


def test_smiles_of_a_benchmark_with_features_of_its_own(tmp_path):
    smiles = ["CCO", "c1ccccc1N", "CC(=O)[O-]", "CS", "CCl"]
    pairs = [(string, float(number)) for number, string in enumerate(smiles)]
    write_zinc(tmp_path, {"train": pairs[:3], "val": pairs[3:4], "test": pairs[4:]})
    store = get_store(DatasetOptions("zinc", data_root=str(tmp_path), progress=False))
    one = predictor("grpe_tiny", store.schema, store.targets, store.featuriser)
    with torch.no_grad():
        batch = batch_of(store, one, np.arange(5))
        expected = store.targets.restore(one.model(batch)).numpy()
    np.testing.assert_allclose(one.predict(smiles), expected, atol=1e-9)
    with pytest.raises(ValueError, match="atom type 'Si H2' is not in the vocabulary"):
        one.predict(["C[SiH2]C"])


def test_positions(rng):
    one = predictor("graphormer_slim", pair_encodings="gaussians")
    graphs = [as_data("CCO"), as_data("CC")]
    with pytest.raises(ValueError, match="positions of atoms, which these graphs do"):
        one.predict(graphs)
    for graph in graphs:
        graph.pos = torch.as_tensor(rng.normal(size=(len(graph.x), 3)))
    found = one.predict(graphs)
    for graph in graphs:
        graph.pos = graph.pos * 2
    assert np.abs(one.predict(graphs) - found).min() > 1e-9


@pytest.mark.parametrize(
    "change, message",
    [
        ({"x": torch.zeros(3, 8, dtype=torch.int64)}, "graph 1: x has 8 columns"),
        ({"x": torch.full((3, 9), 200)}, "graph 1: node 0 has 200 in column 0"),
        ({"x": None}, "graph 1: Data has no x"),
        ({"edge_attr": torch.full((4, 3), 7)}, "graph 1: edge_attr column 0 is 7, exp"),
        ({"edge_index": torch.full((2, 4), 3)}, "graph 1: edge_index names node 3"),
        ({"x": torch.zeros(3, 9)}, "graph 1: x has 9 columns of floats, but graph 0"),
    ],
)
def test_wrong_graphs_are_named(change, message):
    graph = as_data("CCO")
    for name, value in change.items():
        setattr(graph, name, value)
    with pytest.raises(ValueError, match=message):
        predictor().predict(["CC", graph])


@pytest.mark.parametrize("arch", ["grpe_tiny", "graphormer_slim", "gt_zinc", "gcn"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_beyond_half_precision(arch, dtype):
    """Continuous features are projected in float32, whatever the weights are."""
    few = {"encoder_layers": 1, "encoder_embed_dim": 16}
    heads = {} if arch == "gcn" else {"encoder_attention_heads": 2}
    model = build_model(arch, FeatureSchema(2), TARGETS, **few, **heads)
    torch.nn.init.constant_(model.encoder.node_encoder.projection.weight, 1e-5)
    one = hub.Predictor([hub.Member(model, FeatureSchema(2), TARGETS)])
    x = torch.tensor([[70000.0, 1.0], [2.0, 3.0], [-70000.0, 0.0]])
    graphs = [Data(x=x, edge_index=torch.tensor([[0, 1], [1, 0]]))]
    expected = one.predict(graphs)
    model.to(dtype)
    np.testing.assert_allclose(one.predict(graphs), expected, rtol=0.02)


def test_graphs_without_edges():
    lone = as_data("C")
    del lone.edge_attr
    lone.edge_index = torch.zeros(2, 0, dtype=torch.long)
    one = predictor()
    expected = one.predict(["C", "CCO"])
    np.testing.assert_allclose(one.predict([lone, "CCO"]), expected)
    np.testing.assert_allclose(one.predict([lone]), expected[:1])


@pytest.mark.parametrize(
    "inputs, message",
    [
        ("CCO", r"a list, got one SMILES: give \['CCO'\]"),
        (as_data("CCO"), r"a list, got one graph: give \[graph\]"),
        (Batch.from_data_list([as_data("CCO")]), r"or batch.to_data_list\(\)"),
        (Chem.MolFromSmiles("C"), r"a list, got one molecule: give \[molecule\]"),
        (Path("in.csv"), "in.csv: a file; give SMILES"),
        (["CCO", float("nan")], "input 1, nan: neither a SMILES"),
        ([Path("in.csv")], r"path 0, PosixPath\('in.csv'\): neither a SMILES"),
        (["CCO", "C1CC"], "SMILES 1, 'C1CC': .*unclosed ring"),
        ([""], "SMILES 0, '': no SMILES"),
    ],
)
def test_wrong_inputs(inputs, message):
    with pytest.raises(ValueError, match=message):
        predictor().predict(inputs)


def test_what_no_training_graph_had():
    """It is named; a column that never varied in the training changes nothing."""
    water = np.array([[0.0, 0, 0.1], [0.8, 0, -0.5], [-0.8, 0, -0.5]])
    texts = [Atoms.of(np.array([8, 1, 1]), water, np.full(3, tag)) for tag in range(3)]
    schema = FeatureSchema(
        2, *featuriser_named("atoms").dims, seen=[[1, 6, 8], [1], []]
    )
    encodings = {"pair_encodings": "gaussians", "gaussian_kernels": 8}
    trained = predictor("grpe_tiny", schema, TARGETS, "atoms", **encodings)
    with pytest.warns(match=r"has tag 0 \(in 1 molecule\), tag 2 \(in 1 mol"):
        assert len(np.unique(trained.predict(texts))) == 1
    seen = [list(range(size)) for size in [*OGB.node_dims, OGB.num_bond_types + 1]]
    seen[0].remove(15)
    seen[3].remove(6)
    other = predictor(schema=replace(OGB, seen=seen))
    with pytest.warns(match=r"S \(in 2 molecules\), formal_charge 1 \(in 1 molecule"):
        values = other.predict(["CS", "C[SH+]C", "CO"])
    assert np.array_equal(values, predictor().predict(["CS", "C[SH+]C", "CO"]))
    both = hub.Predictor(
        [*other.members, *predictor(schema=replace(OGB, seen=seen[:0])).members]
    )
    assert not both.unseen(both.read(["CS"]))


def test_numbers_beyond_those_of_the_training():
    seen = [list(range(size)) for size in [*OGB.node_dims, OGB.num_bond_types + 1]]
    known = {"seen": seen, "ranges": {"graph_features": [[2.0, 9.0]]}}
    schema = replace(OGB, graph_features=["pH"], graph_mean=[5], graph_std=[1], **known)
    one = predictor(schema=schema)
    with pytest.warns(match=r"molecule has pH beyond 2 to 9 \(in 3 molecules\)"):
        one.predict(["C", "CC", "CCC", "CO"], extra={"pH": [10, 1, 12, 7]})
    real = FeatureSchema(1, seen=[[1]], ranges={"x": [[0.0, 0.1]]})
    graphs = [
        Data(x=torch.tensor([[0.0], [high]]), edge_index=torch.tensor([[0], [1]]))
        for high in (0.1, 0.2)
    ]
    with pytest.warns(
        match=r"^no training molecule has x 0 beyond 0 to 0.1 \(in 1 mol"
    ):
        predictor("grpe_tiny", real, TARGETS, "").predict(graphs)


def test_large_graphs_make_small_batches(monkeypatch):
    one = predictor()
    expected = one.predict(SMILES)
    seen = []
    one.model.register_forward_pre_hook(
        lambda _, args: seen.append(tuple(args[0]["x"].shape[:2]))
    )
    monkeypatch.setattr(graphs, "MAX_PAIRS", 80)
    found = one.predict(SMILES)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert seen == [(2, 3), (1, 6), (1, 10)]
    seen.clear()
    monkeypatch.undo()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    together = 2 * graphs.NODES_PER_THREAD // 200
    found = one.predict(["C" * 200] * (together + 1))
    np.testing.assert_allclose(found, found[[-1] * len(found)], atol=1e-9)
    assert seen == [(together, 200), (1, 200)]


# ------------------------------------------- what graphs and molecules of others mean


class TestVocabulary:
    """6 is carbon for PyG's ``from_smiles`` and nitrogen for OGB."""

    @pytest.mark.parametrize(
        "graph, vocabulary, message",
        [
            # has its SMILES, and every code is in range
            (from_smiles("CCO"), None, "graph 1: its atom features differ .*'CCO'"),
            (as_data("CCO"), None, "not say what its codes mean.*vocabulary = 'ogb'"),
            (as_data("CCO"), "zinc", "vocabulary is 'zinc', the model .* on 'ogb'"),
        ],
    )
    def test_graphs_of_other_codes_are_refused(self, graph, vocabulary, message):
        graph.vocabulary = vocabulary
        with pytest.raises(ValueError, match=message):
            predictor().predict(["CC", graph])

    def test_the_smiles_of_a_graph_says_it(self):
        graph = as_data("CCO")
        del graph.vocabulary
        graph.smiles = "CCO"
        one = predictor()
        np.testing.assert_array_equal(one.predict([graph]), one.predict(["CCO"]))


class TestMolecules:
    SMILES = r"C[C@H](N)C(=O)O c1ccccc1C(=O)[O-].[Na+] C/C=C\C(F)Cl C [2H]O".split()

    @pytest.mark.parametrize("change", [lambda mol: mol, Chem.AddHs])
    def test_they_are_their_smiles(self, change):
        one = predictor()
        mols = [change(Chem.MolFromSmiles(smiles)) for smiles in self.SMILES]
        expected = one.predict(self.SMILES)
        np.testing.assert_allclose(one.predict(mols), expected, atol=1e-12)

    def test_atoms_keep_their_order(self):
        one = predictor()
        mol = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
        order = np.random.default_rng(1).permutation(mol.GetNumAtoms()).tolist()
        (expected,) = one.embed([mol], nodes=True)
        (found,) = one.embed([Chem.RenumberAtoms(mol, order)], nodes=True)
        np.testing.assert_allclose(found, expected[order], atol=1e-12)

    def test_largest_fragment(self):
        salt, acid = "[Na+].CC(=O)[O-].O", "CC(=O)[O-]"
        one = predictor(featuriser="ogb_largest_fragment")
        (expected,) = one.predict([acid])
        for item in (salt, Chem.MolFromSmiles(salt)):
            np.testing.assert_array_equal(one.predict([item]), [expected])
            assert [len(values) for values in one.embed([item], nodes=True)] == [4]
        assert not np.allclose(predictor().predict([salt]), [expected])

    def test_a_refused_one_is_named(self):
        wrong = Chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
        with pytest.raises(ValueError, match="molecule 1: .*valence"):
            predictor().predict(["C", wrong])
