"""A part of QM9, for a comparison that two cores can pay:

graphormer-preprocess --dataset-name qm9_part --user-data-dir examples/positions/datasets
"""

import dataclasses

import numpy as np

from graphormer_plugin.data.benchmarks.qm9 import qm9
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.tables.options import DatasetOptions

ROWS = {"train": 20_000, "valid": 2_000, "test": 10_831}


@register_dataset("qm9_part", options=("seed", "target_columns"))
def qm9_part(options: DatasetOptions) -> DatasetSource:
    """`ROWS` of each split of the dataset qm9, drawn by the seed, from qm9pack."""
    whole = qm9(dataclasses.replace(options, source="qm9pack"))
    rng = np.random.default_rng(options.seed)
    splits = {}
    for name, rows in ROWS.items():
        splits[name] = rng.choice(whole.splits[name], rows, replace=False)
    rows = np.concatenate([*splits.values()])
    parts = np.split(np.arange(len(rows)), np.cumsum([*ROWS.values()])[:-1])
    return dataclasses.replace(
        whole,
        smiles=[whole.smiles[row] for row in rows],
        targets=whole.targets[rows],
        splits=dict(zip(ROWS, parts)),
    )
