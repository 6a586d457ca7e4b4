"""Small molecules with features and labels, for heads."""

import numpy as np

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.kernels import raw_features
from graphormer_plugin.estimators.molecule_description import MoleculeDescription
from graphormer_plugin.workbench.fitting.fit import BLOCKS, fit_on_features
from graphormer_plugin.workbench.fitting.replicates import merge_replicates

ALL = BLOCKS
WIDTH = 6


def molecules(count):
    ends = ("O", "N", "Cl", "C(=O)O", "c1ccccc1", "C#N", "S", "OC")
    return ["C" * (1 + i // len(ends)) + ends[i % len(ends)] for i in range(count)]


def features(count, rng, blocks=ALL):
    smiles = molecules(count)
    vectors = rng.normal(size=(count, WIDTH)).astype(np.float32)
    return smiles, {name: raw_features(name, vectors, smiles) for name in blocks}


def fitted(raw, smiles, y, kind="regression", num_classes=0, **options):
    """A head on targets y0, y1, ... with the blocks of the features."""
    names = [f"y{at}" for at in range(y.shape[1])]
    schema = TargetSchema.of(names, kind=kind, num_classes=num_classes)
    options = {"blocks": [*raw], **options}
    facts = MoleculeDescription.of(smiles, parents=True)
    return fit_on_features(raw, facts, y, schema, **options)


def measured(raw, y, bounds=None):
    """Measurements with labels of equal weight, of different molecules."""
    bounds = np.zeros(y.shape) if bounds is None else bounds
    return merge_replicates(raw, np.arange(len(y)), y, None, bounds)


def predictions_of(head, vectors, smiles=(), extra=None):
    """Prediction for molecules, whose features are computed."""
    names = {*head.read_blocks, "vectors"}
    raw = {name: raw_features(name, vectors, smiles, extra) for name in names}
    return head.predict_features(raw)


def labels(raw, rng):
    x = raw["vectors"].astype(float)
    return (np.sin(x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=len(x)))[:, None]
