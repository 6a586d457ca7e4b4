"""Published checkpoints through graphormer-convert, hub.load and predict."""

import json
import re

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from ogb.utils import smiles2graph
from torch_geometric.data import Data

from graphormer_plugin import hub
from graphormer_plugin.cli import convert
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser, feature_dims
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.finetune.transfer import SIZES
from graphormer_plugin.models import ARCHITECTURES, build_model
from graphormer_plugin.modules import TransformHead
from graphormer_plugin.published.graphormer import distance_table, import_graphormer
from support.golden import golden_state, load_golden, published_graphormer

SOURCES = {
    "graphormer_preln_multi_hop": "microsoft-graphormer",
    "graphormer_preln_single_hop": "microsoft-graphormer",
    "graphormer_postln_multi_hop": "microsoft-graphormer",
    "graphormer_postln_single_hop": "microsoft-graphormer",
    "grpe_shared": "lenscloth-grpe",
    "grpe_independent": "lenscloth-grpe",
}


def limit_of(name):
    """Largest difference from a golden output. The released Graphormer takes its softmax in
    float32, whose last bits depend on the processor's vector instructions: 6e-7 at most was
    seen between AVX-512, AVX2 and none. All else is float64."""
    return 2e-6 if name.startswith("graphormer") else 1e-9


def run(tmp_path, source, state, config, *arguments):
    """Run the command; returns its exit code and the file it was to write."""
    if source == "microsoft-graphormer":
        state = {"model": state}
    torch.save(state, tmp_path / "in.pt")
    (tmp_path / "config.json").write_text(json.dumps(config))
    out = tmp_path / "out.pt"
    paths = [str(tmp_path / "in.pt"), str(out)]
    config_path = str(tmp_path / "config.json")
    code = convert.main(["--from", source, *paths, "--config", config_path, *arguments])
    return code, out


def converted(*given):
    code, out = run(*given)
    assert code == 0
    return hub.load(out)


@pytest.mark.parametrize("name", SOURCES)
def test_equals_the_published_implementation(name, tmp_path):
    archive = load_golden(name)
    config = json.loads(str(archive["config"]))
    predictor = converted(tmp_path, SOURCES[name], golden_state(archive), config)
    smiles = [str(text) for text in archive["smiles"]]
    difference = np.abs(predictor.predict(smiles) - archive["output"]).max(1)
    tie_free = archive.get("tie_free", np.full(len(smiles), True))
    assert tie_free.any() and (difference[tie_free] <= limit_of(name)).all()
    alone = np.concatenate([predictor.predict([text]) for text in smiles])
    assert np.abs(alone - archive["output"])[tie_free].max() <= limit_of(name)


@pytest.mark.parametrize("norm", ["postln", "preln"])
@pytest.mark.parametrize("edges", ["multi_hop", "single_hop"])
def test_the_preset_is_the_published_network(norm, edges):
    """graphormer_base at the sizes of the golden weights: the second version's flags are
    all that it takes, and for the default of each, none."""
    golden = f"graphormer_{norm}_{edges}"
    archive = load_golden(golden)
    config = json.loads(str(archive["config"]))
    sizes = {name: config[name] for name in SIZES}
    flags = {"pre_layernorm": norm == "preln", "edge_type": edges}
    preset = ARCHITECTURES["graphormer_base"].options()
    flags = {name: value for name, value in flags.items() if value != preset[name]}
    assert bool(flags) == ((norm, edges) != ("postln", "multi_hop"))

    imported = import_graphormer(golden_state(archive), config)
    targets = TargetSchema.of(["a", "b"])
    model = build_model("graphormer_base", imported.schema, targets, **sizes, **flags)
    model.double().load_state_dict(imported.state)
    member = hub.Member(model, imported.schema, targets, OGBFeaturiser())
    predictor = hub.Predictor([member])
    smiles = [str(text) for text in archive["smiles"]]
    difference = np.abs(predictor.predict(smiles) - archive["output"]).max(1)
    tie_free = archive.get("tie_free", slice(None))
    assert difference[tie_free].max() <= limit_of(golden)


@torch.no_grad()
def test_grpe_with_a_last_mlp(tmp_path):
    """Linear maps with GELU between the final LayerNorm and the last map."""
    archive = load_golden("grpe_shared")
    state = golden_state(archive)
    maps = 0.2 * torch.randn(2, 32, 33, generator=torch.Generator().manual_seed(1))
    for number, one in enumerate(maps.double()):
        state[f"last_mlp.{number}.0.weight"] = one[:, :-1]
        state[f"last_mlp.{number}.0.bias"] = one[:, -1]
    config = json.loads(str(archive["config"])) | {"num_last_mlp": 2}
    predictor = converted(tmp_path, "lenscloth-grpe", state, config)
    smiles = [str(text) for text in archive["smiles"]]
    x = torch.from_numpy(predictor.embed(smiles))  # after the final LayerNorm
    for one in maps.double():
        x = torch.nn.functional.gelu(x @ one[:, :-1].T + one[:, -1])
    expected = x @ state["linear.weight"].T + state["linear.bias"]
    assert np.abs(predictor.predict(smiles) - expected.numpy()).max() <= 1e-9


def test_grpe_with_a_linear_map_of_nodes(tmp_path):
    """One-hot atomic numbers give the golden model, whose other columns are zero."""
    archive = load_golden("grpe_shared")
    config = json.loads(str(archive["config"]))
    graphs = [smiles2graph(str(text)) for text in archive["smiles"]]
    state = golden_state(archive)
    table, bias = state["node_emb.weight"], torch.arange(32.0).double() / 9
    table[513:] = 0
    linear = {"node_emb.weight": table[1:120].T - bias[:, None], "node_emb.bias": bias}
    predictions = []
    for one, more in ((state, {}), (state | linear, {"bond_dims": feature_dims()[1]})):
        predictor = converted(tmp_path, "lenscloth-grpe", one, config | more)
        (tmp_path / "out.pt").unlink()
        data = [
            Data(
                x=torch.from_numpy(graph["node_feat"]),
                edge_index=torch.from_numpy(graph["edge_index"]),
                edge_attr=torch.from_numpy(graph["edge_feat"]),
                vocabulary="ogb",
            )
            for graph in graphs
        ]
        if more:
            for item in data:
                item.x = torch.nn.functional.one_hot(item.x[:, 0], 119).float()
        predictions.append(predictor.predict(data))
    assert np.abs(predictions[0] - predictions[1]).max() <= 1e-9


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["edges_batchnorm_lappe", "edges_layernorm", "nodes_batchnorm_lappe"]
)
def test_equals_the_published_graph_transformer(name, tmp_path):
    golden = load_golden(f"gt_{name}")
    config = json.loads(str(golden["config"]))
    predictor = converted(tmp_path, "graphtransformer", golden_state(golden), config)
    node_graph = torch.from_numpy(golden["node_graph"])
    sizes = node_graph.bincount()
    mask = torch.arange(int(sizes.max())) < sizes[:, None]

    def pad(values):
        out = torch.from_numpy(values).new_zeros(*mask.shape, *values.shape[1:])
        out[mask] = torch.from_numpy(values)
        return out

    batch = {
        "x": pad(golden["node_type"]).unsqueeze(-1),
        "node_mask": mask,
        "node_graph": node_graph,
        "edge_index": torch.from_numpy(golden["edge_index"]),
        "edge_bond": torch.from_numpy(golden["bond_type"]) + 1,
        "lap_pe": pad(golden["lap_pe"]),
    }
    predicted = predictor.model.double()(batch)
    if name.startswith("nodes"):
        assert predictor.targets.level == "node"
        assert predictor.targets.num_classes == config["n_classes"]
        predicted = predicted[mask]
    expected = torch.from_numpy(golden["output"])
    assert predicted.shape == expected.shape
    assert (predicted - expected).abs().max() / expected.abs().max() < 1e-9
    files = [str(tmp_path / "out.pt")]
    (_,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(files)
    assert cfg.task._name == f"{task.targets.level}_prediction"


@torch.no_grad()
def test_a_graph_transformer_without_bond_types(tmp_path):
    """Its edges all have the feature 1 and a linear map of it."""
    golden = load_golden("gt_edges_layernorm")
    config = json.loads(str(golden["config"])) | {"edge_feat": False, "n_heads": 4}
    state = golden_state(golden)
    bias, weight = torch.rand(2, 32).double()
    state["embedding_e.weight"], state["embedding_e.bias"] = weight[:, None], bias
    predictor = converted(tmp_path, "graphtransformer", state, config)
    table = predictor.model.encoder.bonds.embedding.weight
    assert torch.equal(table, (weight + bias).expand(config["num_bond_type"], 32))


WEIGHTS = published_graphormer()


def without(word):
    """The weights whose names do not have a word."""
    return {name: value for name, value in WEIGHTS.items() if word not in name}


def test_a_model_without_layernorm_on_the_embeddings(tmp_path):
    """The preset has one, and no flag takes it away."""
    state = without("emb_layer_norm")
    model = converted(tmp_path, "microsoft-graphormer", state, {}).model
    assert isinstance(model.encoder.embed_norm, torch.nn.Identity)
    assert isinstance(model.head, TransformHead)


def test_a_missing_edge_is_part_of_the_distance():
    """Rows of the distance table for two path steps and one head, by hand."""
    distance = torch.arange(512.0)[:, None]
    no_edge, steps = torch.tensor([2.0]), torch.tensor([[[10.0]], [[100.0]]])
    table = distance_table(distance, no_edge, steps)[:, 0].tolist()
    # unreachable: no step of two exists; 0 hops: none, over one; 1 hop: the second
    assert table[:4] == [511 + 220 / 2, 1 + 220, 2 + 200, 3]
    assert table[255] == 255 and table[511] == 255
    table = distance_table(distance, no_edge, None)[:, 0].tolist()
    assert table[:4] == [513, 3, 2, 5]


MICROSOFT, GRPE, GT = "microsoft-graphormer", "lenscloth-grpe", "graphtransformer"
POOLED = {**WEIGHTS, "encoder.pooler.weight": torch.zeros(1)}
LAP, NO_LAP = "gt_nodes_batchnorm_lappe", "gt_edges_layernorm"


@pytest.mark.parametrize(
    "source, state, config, message",
    [
        (MICROSOFT, POOLED, {}, "1 weights .* unknown: pooler.weight"),
        (MICROSOFT, without("embed_out.weight"), {}, "no weight 'embed_out.weight'"),
        (MICROSOFT, WEIGHTS, {"encoder_layers": 12}, "layers 12, the weights"),
        (MICROSOFT, WEIGHTS, {"num_classes": 3}, "num_classes 3, the weights"),
        (f"{MICROSOFT} --target-names a", WEIGHTS, {}, "names has 1 names"),
        (MICROSOFT, WEIGHTS, [], "config.json holds no JSON object"),
        (GRPE, WEIGHTS, {}, 'give --config with {"nhead": 32'),
        (GRPE, WEIGHTS, {"nhead": 4}, "no weight 'node_emb.weight'"),
        (GRPE, {"a": 1}, {"nhead": 4}, "holds no weights"),
        (GT, WEIGHTS, {}, 'give --config with {"n_heads"'),
        (GT, NO_LAP, {"n_heads": 4, "wl_pos_enc": True}, "wl_pos_enc True, .* False"),
        (GT, NO_LAP, {"n_heads": 4, "residual": False}, "residual False, the weights"),
        (GT, NO_LAP, {"n_heads": 4, "lap_pos_enc": True}, "lap_pos_enc True, .* False"),
        (f"{GT} --target-unit eV", LAP, {"n_heads": 4}, "IN predicts classes of nodes"),
    ],
)
def test_what_does_not_fit(tmp_path, capsys, source, state, config, message):
    source, *arguments = source.split()
    if isinstance(state, str):
        state = golden_state(load_golden(state))
    code, out = run(tmp_path, source, state, config, *arguments)
    error = capsys.readouterr().err
    assert code == 2 and re.search(message, error) and error.count("\n") == 1
    assert not out.exists()
