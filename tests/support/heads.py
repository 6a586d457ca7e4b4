"""Small molecules with features and labels, for heads."""

import numpy as np

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.workbench.fitting.fit_gp import BLOCKS, fit_on_features
from graphormer_plugin.workbench.fitting.replicates import merge_replicates

ALL = BLOCKS
WIDTH = 6


def molecules(count):
    ends = ("O", "N", "Cl", "C(=O)O", "c1ccccc1", "C#N", "S", "OC")
    return ["C" * (1 + i // len(ends)) + ends[i % len(ends)] for i in range(count)]


def features(count, rng, blocks=ALL):
    smiles = molecules(count)
    vectors = rng.normal(size=(count, WIDTH)).astype(np.float32)
    return smiles, raw_of(blocks, vectors, smiles)


def raw_of(blocks, vectors, smiles, extra=None):
    """Features of molecules by block."""
    raw = {"vectors": np.asarray(vectors, np.float32), "extra": extra}
    new = {*blocks} - raw.keys()
    raw |= {block: molecule_features(block, smiles) for block in new}
    return {block: raw[block] for block in blocks}


def fitted(raw, smiles, y, kind="regression", num_classes=0, **options):
    """A head on targets y0, y1, ... with the blocks of the features."""
    names = [f"y{at}" for at in range(y.shape[1])]
    schema = TargetSchema.of(names, kind=kind, num_classes=num_classes)
    options = {"blocks": [*raw], **options}
    description = MoleculeDescription.of(smiles, parents=True)
    return fit_on_features(raw, description, y, schema, **options)


def measured(raw, y, bounds=None):
    """Measurements with labels of equal weight, of different molecules."""
    bounds = np.zeros(y.shape) if bounds is None else bounds
    return merge_replicates(raw, np.arange(len(y)), y, np.ones(y.shape), bounds)


def predictions_of(head, vectors, smiles=(), extra=None):
    """Prediction for molecules, whose features are computed."""
    names = {*head.read_blocks, "vectors"}
    return head.predict_features(raw_of(names, vectors, smiles, extra))


def labels(raw, rng):
    x = raw["vectors"].astype(float)
    return (np.sin(x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=len(x)))[:, None]
