"""Sums of a Gaussian process over the atoms of a molecule."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from graphormer_plugin.data.graphs.atom_parts import descriptor_parts, morgan_parts
from graphormer_plugin.data.graphs.descriptors import COMPUTED, rdkit_descriptors
from graphormer_plugin.workbench.explain.sums import atom_sums
from support.heads import features, fitted, labels


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_sums_of_a_block(rng, kind):
    """Bits share the part of the fingerprint, and vectors what the training mean has not."""
    smiles, raw = features(40, rng, ["vectors", "fingerprint"])
    y = labels(raw, rng)
    head = fitted(raw, smiles, (y > 0).astype(float) if kind == "binary" else y, kind)
    query = {name: array[7:8] for name, array in raw.items()}
    query["vectors"] = query["vectors"] / 2
    _, (of_vectors, of_bits) = head.addends(query, 0)
    shares = {"fingerprint": morgan_parts(Chem.MolFromSmiles(smiles[7]))}
    of_atoms = atom_sums(head, query, shares, 0)
    assert of_atoms.sum() == pytest.approx(of_bits.sum(), abs=1e-9)
    assert of_atoms.std() > 0
    mean = raw["vectors"].mean(0, keepdims=True, dtype=float)
    away = query["vectors"] - mean
    shares = {"vectors": rng.dirichlet(np.ones(3))[:, None] * away}
    _, (of_mean, _) = head.addends({**query, "vectors": mean}, 0)
    found = atom_sums(head, query, shares, 0).sum()
    assert found == pytest.approx(of_vectors.sum() - of_mean.sum(), abs=1e-6)
    assert abs(found) > 1e-3


@pytest.mark.parametrize("blocks", [["descriptors"], ["fingerprint", "descriptors"]])
def test_planted_surface(rng, blocks):
    """Atoms have RDKit's contributions to the polar surface that a head has learned."""
    smiles, raw = features(80, rng, ["vectors", *blocks])
    surface = rdkit_descriptors(smiles)[:, [COMPUTED.index("TPSA")]]
    head = fitted(raw, smiles, surface, blocks=blocks)
    mol = Chem.MolFromSmiles("CCCC(=O)O")
    (values,) = rdkit_descriptors(["CCCC(=O)O"])
    row = smiles.index("CCCC(=O)O")
    parts = {
        "fingerprint": morgan_parts(mol),
        "descriptors": descriptor_parts(mol, values),
    }
    query = {name: array[row : row + 1] for name, array in raw.items()}
    found = atom_sums(head, query, parts, 0)
    truth = rdMolDescriptors._CalcTPSAContribs(mol)
    assert np.corrcoef(found, truth)[0, 1] > 0.9
    query["descriptors"][0, COMPUTED.index("MaxPartialCharge")] = np.nan  # of a metal
    assert np.isfinite(atom_sums(head, query, parts, 0)).all()


def test_scores_of_a_first_stage(rng):
    """Scores are sums over atoms of their own."""
    smiles, raw = features(40, rng, ["vectors", "fingerprint"])
    y = labels(raw, rng)
    y = np.concatenate([y, y + rng.normal(size=y.shape)], 1)
    head = fitted(raw, smiles, y)
    query = {name: array[7:8] for name, array in raw.items()}
    shares = {"fingerprint": morgan_parts(Chem.MolFromSmiles(smiles[7]))}
    assert head.blocks[-1] == "scores"
    found = atom_sums(head, query, shares, 0)
    head.weights[0, :-1] = 0
    of_scores = atom_sums(head, query, shares, 0)
    assert of_scores.std() > 0 and (of_scores != found).all()
