"""Folders of Graphormers that transformers wrote, by convert, by name and in Python."""

import json

import numpy as np
import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.cli import convert
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.finetune.start import starting_point
from graphormer_plugin.models import build_model
from graphormer_plugin.published import huggingface, names
from graphormer_plugin.published.graphormer import import_graphormer
from graphormer_plugin.published.huggingface import read_folder
from graphormer_plugin.published.names import Published, load_pretrained
from graphormer_plugin.tasks._config import GraphPredictionConfig
from support.golden import golden_of, golden_state, load_golden, write_huggingface

OUTPUT = {"huggingface": "output", "microsoft": "output_microsoft_index"}


def converted(folder, tmp_path, *arguments):
    out = tmp_path / "out.pt"
    out.unlink(missing_ok=True)
    code = convert.main(["--from", "huggingface", str(folder), str(out), *arguments])
    assert code == 0
    return hub.load(out)


@pytest.mark.parametrize("node_index", OUTPUT)
@pytest.mark.parametrize("name", ["regression", "multitask", "classes"])
def test_equals_the_published_class(tmp_path, request, name, node_index):
    """Its outputs of several targets and of classes, whose probabilities ours are."""
    archive = golden_of(request, f"hf_graphormer_{name}")
    kind = ["--target-kind", "multiclass"] if name == "classes" else []
    chosen = ["--node-index", node_index, *kind]
    predictor = converted(
        write_huggingface(tmp_path / "hf", archive=archive), tmp_path, *chosen
    )
    found = predictor.predict([str(text) for text in archive["smiles"]])
    expected = torch.from_numpy(archive[OUTPUT[node_index]])
    if kind:
        expected = expected.softmax(1)
    rows = archive["tie_free"]
    assert rows.any()
    assert np.abs(found - expected.numpy())[rows].max() <= 1e-6


def test_both_files_and_molecules_that_its_preprocessing_refuses(tmp_path):
    """One atom alone, two molecules, a chain of 24 bonds."""
    smiles = ["C", "[Na+].[Cl-]", "C" * 25]
    found = [
        converted(write_huggingface(tmp_path / file, file), tmp_path).predict(smiles)
        for file in ("pytorch_model.bin", "model.safetensors")
    ]
    assert np.array_equal(*found) and np.isfinite(found[0]).all()


def test_sums_of_half_precision_are_not_rounded():
    state = golden_state(load_golden("hf_graphormer_regression"))
    state["encoder.graph_encoder.graph_attn_bias.edge_encoder.weight"][0] = 0.1
    halves = {name: (weight / 3).half() for name, weight in state.items()}
    wide = {name: weight.float() for name, weight in halves.items()}
    found, expected = (import_graphormer(one, {}).state for one in (halves, wide))
    assert all(map(torch.equal, found.values(), expected.values()))


def test_the_node_index_is_that_of_the_training(tmp_path, caplog, monkeypatch):
    for name, index in {
        "graphormer-base-pcqm4mv2": "microsoft",
        "models--clefourrier--graphormer-base-pcqm4mv1/snapshots/3ea386d": "microsoft",
        "my-graphormer-base-pcqm4mv2": "huggingface",
    }.items():
        folder = write_huggingface(tmp_path / name)
        assert read_folder(folder, {})[1]["node_index"] == index
        assert f"node index of {index}" in caplog.text
    sha256 = file_sha256(folder / "pytorch_model.bin")
    monkeypatch.setattr(huggingface, "PCQM4MV2_SHA256", sha256)
    assert read_folder(folder, {})[1]["node_index"] == "microsoft"
    chosen = {"node_index": "huggingface", "multi_hop_max_dist": 3}
    assert read_folder(folder, chosen)[1].items() >= chosen.items()
    changed = {"spatial_pos_max": 20, "activation_dropout": 0.3}
    options = read_folder(write_huggingface(tmp_path / "b", **changed), {})[1]
    assert (options["spatial_pos_max"], options["act_dropout"]) == (20, 0.3)


def test_a_folder_starts_a_training(tmp_path):
    folder = write_huggingface(tmp_path / "hf")
    start = load_pretrained(str(folder))
    assert start.options["_name"] == "graphormer_base"
    assert start.options["encoder_layers"] == 2
    assert start.options["encoder_ffn_embed_dim"] == 48
    table = "encoder.node_encoder.embedding.weight"
    options = {"pretrained_model_name": str(folder), "node_index": "microsoft"}
    other = starting_point(GraphPredictionConfig(**options)).checkpoint
    assert torch.equal(start.weights[table][:-1], other.weights[table][1:])
    for name in ("grpe_minimol", "none"):
        options["pretrained_model_name"] = name
        with pytest.raises(ValueError, match="--node-index .*only works with"):
            starting_point(GraphPredictionConfig(**options))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "bert"}, "describes a bert, expected graphormer"),
        ({"num_hidden_layers": 3}, "encoder_layers 3, the weights have 2"),
        ({"hidden_size": 64}, "encoder_embed_dim 64, the weights have 32"),
        ({"num_atoms": 9216}, "num_atoms 9216, the weights have 4608"),
        ({"num_spatial": 40}, "num_spatial 40, the weights have 512"),
        ({"num_edge_dis": 5}, "num_edge_dis 5, the weights have 128"),
        ({"embed_scale": 2.0}, "embed_scale 2.0, expected null"),
    ],
)
def test_a_wrong_config_is_named(tmp_path, capsys, changed, message):
    folder = write_huggingface(tmp_path / "hf", **changed)
    out = tmp_path / "out.pt"
    assert convert.main(["--from", "huggingface", str(folder), str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_one_output_has_no_classes(tmp_path, capsys):
    arguments = ["--from", "huggingface", str(write_huggingface(tmp_path / "hf"))]
    arguments += [str(tmp_path / "out.pt"), "--target-kind", "multiclass"]
    assert convert.main(arguments) == 2
    assert "classes of a target 1: expected 2 or more" in capsys.readouterr().err


def test_a_folder_without_files_is_named(tmp_path, capsys):
    arguments = ["--from", "huggingface", str(tmp_path), str(tmp_path / "out.pt")]
    assert convert.main(arguments) == 2
    assert "has no config.json" in capsys.readouterr().err
    with pytest.raises(ValueError, match="has no config.json"):
        load_pretrained(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "graphormer"}')
    assert convert.main(arguments) == 2
    assert "neither pytorch_model.bin nor model.safetensors" in capsys.readouterr().err
    (tmp_path / "model.safetensors").write_bytes(b"\x20\0\0\0\0\0\0\0{" + b" " * 40)
    assert convert.main([*arguments, "--node-index", "microsoft"]) == 2
    assert "model.safetensors is damaged" in capsys.readouterr().err


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A model at two addresses, of which the second has safetensors."""
    first = write_huggingface(tmp_path / "a") / "pytorch_model.bin"
    other = write_huggingface(tmp_path / "b", "model.safetensors") / "model.safetensors"
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path / "root"))

    def publish(**changed):
        model = Published("theirs.pt", first.as_uri(), other=other.as_uri(), **changed)
        monkeypatch.setitem(names.PUBLISHED, "some_model", model)
        return first

    return publish


def test_the_second_address_is_used_if_the_first_is_gone(published):
    first = published()
    first.unlink()
    start = load_pretrained("some_model")
    assert start.options["encoder_layers"] == 2


def test_another_checksum_is_refused(published, tmp_path):
    published(sha256="00" * 32)
    with pytest.raises(ValueError, match="sha256 is .* expected 000000000000"):
        load_pretrained("some_model")
    assert not list((tmp_path / "root").rglob("*.pt"))


def test_a_model_that_nobody_publishes_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path))
    with pytest.raises(ValueError, match="nobody publishes it any more"):
        load_pretrained("pcqm4mv1_graphormer_base_for_molhiv")


def test_the_published_base_is_graphormer_base(shared_data):
    """Names and shapes of all 208 weights of the published model."""
    path = shared_data.parent / "golden/hf_graphormer_base_pcqm4mv2_shapes.json"
    if not path.is_file():
        pytest.skip(f"no {path.name}")
    published = json.loads(path.read_text())
    shapes = published["shapes"]
    state = {name: torch.zeros(shape) for name, shape in shapes.items()}
    imported = import_graphormer(state, {})
    model = build_model("graphormer_base", imported.schema, imported.targets)
    model.load_state_dict(imported.state)
    taken = sum(weight.numel() for weight in state.values())
    assert taken == published["parameters"] == 47_677_505
