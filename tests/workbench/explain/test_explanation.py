import json
import shutil

import numpy as np
import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.graphs.smiles import feature_dims
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.checkpoint import checkpoint_path
from graphormer_plugin.inference.member import Member
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.models import build_model
from graphormer_plugin.workbench.explain.explanation import Explainer, largest
from graphormer_plugin.workbench.explain.masking import (
    ATOMS,
    BRICS_FRAGMENTS,
    Contribution,
    contributions,
    shares,
)
from graphormer_plugin.workbench.explain.sums import prediction_sum
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp

START = "grpe_minimol"
TRAIN = [f"{group}{'C' * k}O" for group in ("", "Cl", "F", "Cl") for k in range(2, 10)]
LABELS = np.array(["Cl" in smiles for smiles in TRAIN], float)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A head on two classes, chlorides and others, as graphormer-train leaves it."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "replicate1/head1").mkdir(parents=True)
    path = shutil.copy(checkpoint_path(START), folder / "replicate1/head1/best.pt")
    schema = TargetSchema.of(["y"], "", "binary").with_classes([["no", "yes"]])
    fit_gp(path, TRAIN, LABELS, schema=schema).save(
        folder / "replicate1/head1/head.npz"
    )
    words = [f"{smiles},{'yes' if y else 'no'}" for smiles, y in zip(TRAIN, LABELS)]
    (folder / "molecules.csv").write_text("\n".join(["smiles,y", *words]) + "\n")
    rows = {"train": list(range(len(TRAIN))), "valid": [], "test": []}
    (folder / "replicate1/split.json").write_text(json.dumps(rows))
    return folder / "replicate1/head1/best.pt"


@pytest.mark.parametrize(
    "smiles, predicted, other",
    [("ClCCCCc1ccccc1", "yes", "no"), ("CCCCOC", "no", "yes")],
)
def test_classes(checkpoint, smiles, predicted, other):
    predictor = hub.load(checkpoint)
    explain = Explainer(predictor, None, [checkpoint])
    section = explain(predictor.read([smiles]), {})
    (_, parts), (_, near), (heading, others) = section.groups
    assert section.text.startswith("y: probability of yes ")
    assert heading == "nearest training molecules with another outcome"
    assert len(near) == 4 and all(f"{other}, " in panel.title for panel in others)
    atoms = parts[0]
    assert atoms.title == "atoms, probability"
    np.testing.assert_array_equal(atoms.values, atoms.values.round(2))
    if predicted == "yes":
        assert atoms.values.argmax() == 0 and atoms.values[0] > 0.5
    else:  # nothing that matters is drawn, or named
        assert np.abs(atoms.values).max() < 0.2
        assert " +0," not in section.text and not section.text.endswith(" +0")


def test_sums(checkpoint):
    """Blocks, training molecules and atoms each add up to the logit, and Myerson values to the
    probability."""
    predictor = hub.load(checkpoint)
    molecules = predictor.read(["ClCCCCc1ccccc1"])
    explain = Explainer(predictor, None, [checkpoint], sums=True, myerson=ATOMS)
    section = explain(molecules, {})
    found = prediction_sum(predictor, molecules, 0, np.empty((1, 0)))
    p = predictor.predict(molecules)[0, 0]
    assert found.total == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
    assert sum(found.of_molecule.values()) + found.constant == pytest.approx(
        found.total, abs=1e-9
    )
    assert f"logit of y {found.total:.4g} = {found.constant:.4g} " in section.text
    *of_atoms, rest = section.columns["sum"]
    assert sum(of_atoms) + rest == pytest.approx(found.total, abs=1e-6)
    assert np.argmax(of_atoms) == 0 and f"{rest:+.4g} not of an atom" in section.text
    groups = dict(section.groups)
    highest, lowest = (
        groups[f"training molecules that {way} logit of y most"]
        for way in ("raise", "lower")
    )
    assert 0 < len(highest) <= 10 == len(lowest)
    assert f", {max(found.of_molecule.values()):+.3g}" in highest[0].title
    assert f", {min(found.of_molecule.values()):+.3g}" in lowest[0].title
    (panel,) = groups["Myerson values of atoms, probability"]
    values, errors = shares(predictor, molecules, ATOMS)
    assert sum(part.value for part in values) == pytest.approx(p, abs=1e-6)
    assert panel.values.argmax() == 0 and not errors.any()
    np.testing.assert_array_equal(groups["logit of y by atom"][0].values, of_atoms)
    np.testing.assert_array_equal(section.columns["myerson"], panel.values)
    few, _ = shares(predictor, molecules, BRICS_FRAGMENTS)
    assert len(few) < len(values)
    assert sum(part.value for part in few) == pytest.approx(p, abs=1e-6)


def test_sum_of_several_heads(tmp_path):
    """On logarithms, with a first stage for two targets."""
    paths = []
    for number in range(2):
        (tmp_path / f"m{number}").mkdir()
        paths.append(f"m{number}/best.pt")
        shutil.copy(checkpoint_path(START), tmp_path / paths[-1])
        y = np.array([[len(smiles), smiles.count("C") + number] for smiles in TRAIN])
        head = fit_gp(tmp_path / paths[-1], TRAIN, y, names=["y", "log10 z"])
        head.save(tmp_path / f"m{number}/head.npz")
    write_folder(tmp_path, paths, log_targets=["log10 z"])
    predictor = hub.load(tmp_path)
    molecules = predictor.read(["FCCCCCO"])
    found = prediction_sum(predictor, molecules, 1, np.empty((1, 0)))
    assert 10**found.total == pytest.approx(predictor.predict(molecules)[0, 1])
    # The first stage passes on what its scores have from the chlorine-free chain.
    assert found.of_atom.shape == (7,) and found.of_atom.std() > 0
    assert [*found.of_block] == ["vectors", "fingerprint", "descriptors", "scores"]
    section = Explainer(predictor, "z", [], sums=True)(molecules, {})
    assert f"; log10 z {found.total:.4g} = " in section.text
    plain = hub.load(tmp_path / paths[0], head=None)
    with pytest.raises(ValueError, match="--sum is of Gaussian processes"):
        Explainer(plain, None, [], sums=True)


def test_sum_of_vectors_alone(tmp_path):
    """The mean over atoms is theirs, the virtual node's vector is not."""
    path = shutil.copy(checkpoint_path(START), tmp_path / "best.pt")
    lengths = np.array([len(smiles) for smiles in TRAIN], float)
    fit_gp(path, TRAIN, lengths, blocks=["vectors"]).save(tmp_path / "head.npz")
    predictor = hub.load(path)
    found = [
        prediction_sum(predictor, predictor.read([smiles]), 0, np.empty((1, 0)))
        for smiles in ("CCO", "CCCCCCCO")
    ]
    few, many = (part.of_atom.sum() for part in found)
    assert few < 0 < many < found[1].of_block["vectors"]


def test_a_target_of_a_mixed_panel(tmp_path):
    path = shutil.copy(checkpoint_path(START), tmp_path / "best.pt")
    group = LABELS + [2 * ("F" in smiles) for smiles in TRAIN]
    labels = np.stack([group, [len(smiles) for smiles in TRAIN], (group + 1) % 3], 1)
    kinds = ["multiclass", "regression", "multiclass"]
    schema = TargetSchema.of(["a", "b", "c"], "", kinds, num_classes=[3, 0, 3])
    head = fit_gp(path, TRAIN, labels, schema=schema)
    head.save(tmp_path / "head.npz")
    predictor = hub.load(path)
    assert predictor.targets.std == [1, head.numbers["scale"][3], 1]
    molecules = predictor.read(["FCCCCCO"])
    section = Explainer(predictor, "c", [path])(molecules, {})
    assert section.text.startswith("c: 0, probability ")
    expected = contributions(predictor, molecules, 4)
    values = [part.value for part in expected if part.kind == ATOMS]
    assert section.groups[0][1][0].values == pytest.approx(values, abs=0.0051)
    assert max(values) > 0.1


def test_largest_contributions_of_either_sign_are_named():
    values = {"C": 1, "N": -3, "O": 2, "F": np.nan, "S": 0.5, "P": 0}
    parts = [
        Contribution(BRICS_FRAGMENTS, (at,), name, values[name])
        for at, name in enumerate(values)
    ]
    parts.append(Contribution(ATOMS, (9,), "Cl", 9))  # fragments are named alone
    assert largest(parts) == "; largest contributions: N -3, O +2, C +1"


def test_a_model_of_conformers():
    """Without an atom, a molecule has another conformer."""
    torch.manual_seed(0)
    node_dims, bond_dims = feature_dims()
    schema = FeatureSchema(len(node_dims), node_dims, bond_dims)
    targets = TargetSchema.of(["y"])
    sizes = {"encoder_layers": 1, "encoder_embed_dim": 16, "gaussian_kernels": 8}
    options = {"pair_encodings": "gaussians", "gaussian_node_factor": 1.0, **sizes}
    model = build_model("grpe_tiny", schema, targets, **options)
    member = Member(model, schema, targets, featuriser_named("ogb_rdkit"))
    predictor = Predictor([member])
    section = Explainer(predictor, None, [])(predictor.read(["ClCCO"]), {})
    (_, parts), *_ = section.groups
    assert np.isfinite(parts[0].values).all() and len({*parts[0].values}) == 4


@pytest.mark.parametrize("name, text", [("atoms", "atoms"), ("ogb_file", "mol blocks")])
def test_models_of_positions_in_files(checkpoint, name, text):
    predictor = hub.load(checkpoint)
    predictor.featuriser = featuriser_named(name)
    with pytest.raises(ValueError, match=f"the model reads {text}.*are of SMILES"):
        Explainer(predictor, None, [checkpoint])
