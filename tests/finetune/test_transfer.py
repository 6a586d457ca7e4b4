"""Weights of one training run as the start of another."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.finetune.layerwise import scaled_learning_rates
from graphormer_plugin.finetune.transfer import resolve_options, translate
from graphormer_plugin.inference.pretrained import Pretrained
from graphormer_plugin.models import build_model, weight_layers
from support.architectures import TARGETS, TINY, batch_of, has_option

# A ring of four nodes with a tail of two; node columns and bond columns, the values of
# which all schemas below have.
NODES = np.array([[0, 1], [2, 0], [1, 1], [0, 0], [3, 1], [2, 1]])
BONDS = {
    (0, 1): (0, 1),
    (1, 2): (2, 0),
    (2, 3): (0, 1),
    (0, 3): (1, 1),
    (3, 4): (2, 0),
    (4, 5): (0, 0),
}
SOURCE = FeatureSchema(2, [4, 2], [3, 2])
SCHEMAS = {
    "larger columns": FeatureSchema(2, [6, 3], [4, 3]),
    "another column": FeatureSchema(3, [4, 2, 5], [3, 2]),
    # The combinations that occur, in an order of their own, with an UNKNOWN.
    "bond table": FeatureSchema(
        2, [4, 2], [300, 2], [[0, 0], [0, 1], [1, 1], [2, 0], [299, 1]]
    ),
}
ARCHITECTURES = {
    "grpe": ("grpe_tiny", {}),
    "grpe, encodings per layer": ("grpe_tiny", {"independent_encodings": True}),
    "paths": ("graphormer_paper_slim", {}),
    "direct bonds": ("graphormer_paper_slim", {"edge_type": "single_hop"}),
    "bonds in nodes": ("graphormer_paper_slim", {"edge_type": "node"}),
    "bonds in messages": ("graphormer_paper_slim", {"edge_type": "aggregation"}),
    "edges": ("gt_zinc", {"node_encodings": "none"}),
    "messages along bonds": ("gine", {"virtual_node": True}),
    "pairs": ("cgt_zinc", {"node_encoding_dim": 4}),
    "pairs in rings": ("cgt_zinc_rings", {"node_encoding_dim": 4}),
    "pairs per layer": ("cgt_pattern", {"node_encoding_dim": 4, "attention": "mono"}),
}


def make_model(schema, arch="grpe_tiny", targets=TARGETS, seed=0, **options):
    torch.manual_seed(seed)
    sizes = {name: size for name, size in TINY.items() if has_option(arch, name)}
    return build_model(arch, schema, targets, **{**sizes, **options})


def make_batch(model, schema):
    """The one graph, in the vocabulary of a schema."""
    edges = sorted([*BONDS, *((v, u) for u, v in BONDS)])
    values = np.array([BONDS[min(edge), max(edge)] for edge in edges])
    x = np.zeros((len(NODES), schema.num_node_features), dtype=np.uint8)
    x[:, :2] = NODES
    src, dst = np.array(edges, dtype=np.uint8).T
    columns = {
        "node_offset": np.array([0, len(NODES)]),
        "edge_offset": np.array([0, len(edges)]),
        "x": x,
        "edge_src": src.copy(),
        "edge_dst": dst.copy(),
        "edge_bond": schema.bond_types(values).astype(np.uint8),
    }
    columns |= compute_columns(columns, model.batch_spec)
    return batch_of(columns, [0], model.batch_spec, schema)


def start(schema=SOURCE, targets=TARGETS, **options):
    return Pretrained("run.pt", schema, targets, options)


@torch.no_grad()
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("arch, options", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_a_graph_means_the_same_in_another_vocabulary(arch, options, schema):
    old = make_model(SOURCE, arch, **options).double().eval()
    new = make_model(schema, arch, seed=1, **options).double().eval()
    fresh = {name: value.clone() for name, value in new.state_dict().items()}
    weights = translate(old.state_dict(), new, start(), schema, TARGETS)
    new.load_state_dict(weights)
    wanted = old(make_batch(old, SOURCE))
    batch = make_batch(new, schema)
    if schema.num_node_features > 2:  # what the new column adds is not learned yet
        dims = sum(schema.node_dims[:2])
        table = new.encoder.node_encoder.embedding.weight
        added = fresh["encoder.node_encoder.embedding.weight"][dims:]
        assert torch.equal(table[dims:], added)
        table[dims:] = 0
    assert (new(batch) - wanted).abs().max() < 1e-12


def test_new_values_stay_as_initialised_and_the_log_counts_them(caplog):
    schema = SCHEMAS["larger columns"]
    old, new = make_model(SOURCE), make_model(schema, seed=1)
    with caplog.at_level(logging.INFO):
        weights = translate(old.state_dict(), new, start(), schema, TARGETS)
    name = "encoder.node_encoder.embedding.weight"
    mapped = [0, 1, 2, 3, 6, 7]  # columns of 6 and 3 values, 4 and 2 before
    assert torch.equal(weights[name][mapped], old.state_dict()[name])
    for row in (4, 5, 8):
        assert torch.equal(weights[name][row], new.state_dict()[name][row])
    assert f"{name}, 6 of 9 rows (3 new, 0 of the checkpoint not used)" in caplog.text
    # types (c0, c1) of 4 x 3 against 3 x 2, and no edge, self, virtual
    assert "edge_value.weight, 9 of 15 rows (6 new" in caplog.text


def test_what_a_model_has_not_is_skipped_and_logged(caplog):
    old = make_model(SOURCE, "graphormer_slim")
    new = make_model(SOURCE, "graphormer_slim", seed=1, node_encodings="degrees:512:0")
    with caplog.at_level(logging.INFO):
        weights = translate(old.state_dict(), new, start(), SOURCE, TARGETS)
    skipped = "encoder.node_encoder.encodings.0.projection.tables.1.weight"
    assert f"skipped, not in this model: {skipped}\n" in caplog.text
    assert skipped not in weights and "re-initialised" not in caplog.text
    kept = "encoder.node_encoder.encodings.0.projection.tables.0.weight"
    assert torch.equal(weights[kept], old.state_dict()[kept])


def test_tables_of_fixed_size():
    old = make_model(SOURCE, node_table_size=32)
    new = make_model(SCHEMAS["larger columns"], seed=1, node_table_size=8)
    weights = translate(
        old.state_dict(), new, start(), SCHEMAS["larger columns"], TARGETS
    )
    name = "encoder.node_encoder.embedding.weight"
    source = old.state_dict()[name]
    assert torch.equal(weights[name][:4], source[:4])
    assert torch.equal(weights[name][8:10], source[32:34])
    assert torch.equal(weights[name][4:8], new.state_dict()[name][4:8])


def test_features_that_are_numbers():
    few, more = (FeatureSchema(n, None, [], None) for n in (2, 3))
    old, new = make_model(few), make_model(more, seed=1)
    weights = translate(old.state_dict(), new, start(few), more, TARGETS)
    name = "encoder.node_encoder.projection.weight"
    assert torch.equal(weights[name][:, :2], old.state_dict()[name])
    assert torch.equal(weights[name][:, 2], new.state_dict()[name][:, 2])


def test_other_targets_get_a_new_head(caplog):
    targets = TargetSchema.of(["c"])
    for arch, kind in (
        ("graphormer_paper_slim", "weight"),
        ("graphormer_slim", "projection.weight"),
    ):
        old = make_model(SOURCE, arch)
        new = make_model(SOURCE, arch, targets, seed=1)
        with caplog.at_level(logging.INFO):
            weights = translate(old.state_dict(), new, start(), SOURCE, targets)
        own = new.state_dict()
        anew = {n for n in weights if weights[n].data_ptr() == own[n].data_ptr()}
        assert anew == {f"head.{kind}", "head.bias"}
        assert "re-initialised (targets there 2: a, b, here 1: c)" in caplog.text


@torch.no_grad()
@pytest.mark.parametrize(
    "arch, options",
    [
        ("graphormer_paper_slim", {}),
        ("graphormer_slim", {}),
        ("cgt_zinc", {"node_encoding_dim": 4}),
    ],
)
@pytest.mark.parametrize("scales", [(1, 1), (0, 1), (1, 0)], ids=str)
def test_the_same_targets_keep_their_head_and_its_units(arch, options, scales):
    """Whatever the scale of training, there and here: 0 is --target-scale none."""
    there = TargetSchema.of(["a"], mean=[3.0] * scales[0], std=[2.0] * scales[0])
    here = TargetSchema.of(["a"], mean=[-1.0] * scales[1], std=[5.0] * scales[1])
    options = {"arch": arch, **options}
    old = make_model(SOURCE, targets=there, **options).double().eval()
    new = make_model(SOURCE, targets=here, seed=1, **options).double().eval()
    batch = make_batch(old, SOURCE)
    wanted = there.restore(old(batch))
    weights = translate(old.state_dict(), new, start(targets=there), SOURCE, here)
    new.load_state_dict(weights)
    assert here.restore(new(batch)).item() == pytest.approx(wanted.item(), abs=1e-12)


def test_the_head_is_kept_on_demand():
    targets = TargetSchema.of(["c", "d"])
    old, new = make_model(SOURCE), make_model(SOURCE, targets=targets, seed=1)
    weights = translate(old.state_dict(), new, start(), SOURCE, targets, keep_head=True)
    assert torch.equal(weights["head.weight"], old.state_dict()["head.weight"])
    one = TargetSchema.of(["c"])
    small = make_model(SOURCE, targets=one)
    with pytest.raises(ValueError, match="2 outputs and this run 1"):
        translate(old.state_dict(), small, start(), SOURCE, one, keep_head=True)


def test_half_precision():
    schema = SCHEMAS["larger columns"]
    old, new = make_model(SOURCE).half(), make_model(schema, seed=1)
    new.load_state_dict(translate(old.state_dict(), new, start(), schema, TARGETS))
    tables = [m.encoder.node_encoder.embedding.weight for m in (old, new)]
    assert tables[1].dtype == torch.float32
    assert torch.equal(tables[1][:4], tables[0][:4].float())


def test_translated_once():
    """The second load is a run's own checkpoint."""
    old, new = make_model(SOURCE), make_model(SOURCE, seed=1)
    calls = []
    new.translate = lambda weights: calls.append(weights) or weights
    new.load_state_dict(old.state_dict())
    new.load_state_dict(old.state_dict())
    assert len(calls) == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder_embed_dim": 32}, r"\[13, 16\] in run.pt, \[13, 32\] here"),
        ({"max_hop": 3}, r"topology.* is \[9, 32\] in run.pt, \[7, 32\] here"),
    ],
)
def test_tensors_that_do_not_fit(options, message):
    schema = FeatureSchema(2, [8, 5], [3, 2])
    old, new = make_model(schema), make_model(schema, seed=1, **options)
    with pytest.raises(ValueError, match=message):
        translate(old.state_dict(), new, start(schema), schema, TARGETS)


def options(arch="graphormer_paper_slim", **values):
    """fairseq's options of a model, all of a preset but for some."""
    from graphormer_plugin.models import ARCHITECTURES

    return OmegaConf.create({**ARCHITECTURES[arch].options(), "_name": arch, **values})


class TestOptions:
    def test_sizes_have_to_agree(self):
        saved = options(encoder_embed_dim=32, encoder_layers=4)
        with pytest.raises(ValueError) as error:
            resolve_options(options(), start(**saved))
        assert str(error.value) == (
            "run.pt was trained with other options, which have to agree, than this run: "
            "--encoder-embed-dim 80 (there --encoder-embed-dim 32), "
            "--encoder-layers 12 (there --encoder-layers 4)"
        )

    def test_another_model(self):
        with pytest.raises(ValueError, match="grpe_small, .* --arch graphormer_paper"):
            resolve_options(options(), start(**options("grpe_small")))

    def test_presets_adopt_and_choices_stay(self, caplog):
        saved = options(num_spatial=100, head_style="transform", dropout=0.4)
        cfg = options(num_spatial=50)
        with caplog.at_level(logging.INFO):
            resolve_options(cfg, start(**saved))
        assert cfg.head_style == "transform" and cfg.num_spatial == 50
        assert cfg.dropout == 0.1
        assert "options taken from run.pt: --head-style transform" in caplog.text
        kept = "other than in run.pt: --num-spatial 50 (there --num-spatial 100)"
        assert kept in caplog.text

    def test_switches(self, caplog):
        saved = options(apply_graphormer_init=True, encoder_normalize_before=False)
        cfg = options(encoder_normalize_before=True)
        with caplog.at_level(logging.INFO):
            resolve_options(cfg, start(**saved))
        assert cfg.apply_graphormer_init and cfg.encoder_normalize_before
        assert "taken from run.pt: --apply-graphormer-init\n" in caplog.text
        assert "(there no --encoder-normalize-before)" in caplog.text

    def test_another_preset_of_the_model(self):
        small = dict(TINY, _name="graphormer_base")
        cfg = options(**TINY)
        resolve_options(cfg, start(**{**options("graphormer_base"), **small}))
        assert cfg.num_in_degree == 512 and cfg.head_style == "transform"


def test_weight_layers():
    model = make_model(SOURCE, independent_encodings=True)
    layers = weight_layers(model)
    assert layers["encoder.node_encoder.embedding.weight"] == 0
    assert layers["encoder.encodings.1.edge_value.weight"] == 2
    assert layers["encoder.layers.0.fc1.weight"] == 1
    assert layers["encoder.final_norm.weight"] == layers["head.weight"] == 3
    shared = make_model(SOURCE)
    assert weight_layers(shared)["encoder.encodings.0.edge_value.weight"] == 0
    graphormer = make_model(SOURCE, "graphormer_slim")
    for name in (
        "attn_bias.spatial.embedding",
        "node_encoder.encodings.0.projection.tables.0",
    ):
        assert weight_layers(graphormer)[f"encoder.{name}.weight"] == 0
    cgt = make_model(SOURCE, "cgt_zinc", node_encoding_dim=4, own_edge_encoding=True)
    assert weight_layers(cgt)["encoder.pairs.walks.weight"] == 0
    assert weight_layers(cgt)["encoder.projections.1.att.weight"] == 2
    assert weight_layers(cgt)["head.hidden.0.weight"] == 3
    cgt = make_model(SOURCE, "cgt_zinc", node_encoding_dim=4)
    assert weight_layers(cgt)["encoder.projections.0.att.weight"] == 0
    gt = make_model(SOURCE, "gt_zinc")
    nodes = "node_encoder.embedding", "node_encoder.encodings.0.projection"
    for name in ("bonds.embedding", *nodes):
        assert weight_layers(gt)[f"encoder.{name}.weight"] == 0
    assert weight_layers(gt)["encoder.layers.1.edges.fc1.weight"] == 2
    assert weight_layers(gt)["head.projection.weight"] == 3


def test_frozen_layers_have_no_gradient():
    model = make_model(SOURCE, freeze_encoder_layers=1)
    model(make_batch(model, SOURCE)).sum().backward()
    for name, parameter in model.named_parameters():
        frozen = weight_layers(model)[name] <= 1
        assert parameter.requires_grad != frozen, name
        assert (parameter.grad is None) == frozen, name


def test_learning_rates_are_split_for_a_step_only():
    model = make_model(SOURCE, layerwise_lr_decay=0.5)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    optimizer = SimpleNamespace(optimizer=adam)
    before = [adam.state_dict()["param_groups"]]
    with scaled_learning_rates(optimizer):
        rates = {
            id(parameter): group["lr"]
            for group in adam.param_groups
            for parameter in group["params"]
        }
        adam.param_groups[0]["step"] = 7
    for name, parameter in model.named_parameters():
        assert rates[id(parameter)] == 0.1 * 0.5 ** (
            3 - weight_layers(model)[name]
        ), name
    (group,) = adam.param_groups
    assert group["lr"] == 0.1 and group["step"] == 7
    assert len(group["params"]) == len(before[0][0]["params"])


def test_numbers_of_graphs_start_anew(caplog):
    """Their weights belong to columns that another run scales in another way."""
    numbers = {"graph_mean": [0.0], "graph_std": [1.0]}
    schema = FeatureSchema(2, [4, 2], [3, 2], graph_features=["pH"], **numbers)
    old = build_model("grpe_tiny", schema, TARGETS, **TINY)
    torch.nn.init.ones_(old.joined.weight)
    caplog.set_level(logging.INFO)
    for here in (schema, SOURCE):
        new = build_model("grpe_tiny", here, TARGETS, **TINY)
        there = Pretrained("old.pt", schema, TARGETS, {})
        new.load_state_dict(translate(old.state_dict(), new, there, here, TARGETS))
        torch.testing.assert_close(new.head.weight, old.head.weight)
    assert "re-initialised: joined.weight" in caplog.text
    assert "skipped, not in this model: joined.weight" in caplog.text
