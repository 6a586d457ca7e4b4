"""Peptides-func of the Long Range Graph Benchmark.

Files, classes and split are those of the released loader (vijaydwivedi75/lrgb,
peptides_functional.py), whose molecules have OGB's features.
"""

import json

import numpy as np

from graphormer_plugin.data.benchmarks.official import BenchmarkFiles, SingleFile
from graphormer_plugin.data.benchmarks.pickles import load_pickle
from graphormer_plugin.data.graphs.featurisers import vocabulary_of
from graphormer_plugin.data.graphs.smiles import PLAIN
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.splits import checked_splits
from graphormer_plugin.data.tables.options import DatasetOptions

CLASSES = (
    "antifungal cell_cell_communication anticancer drug_delivery_vehicle antimicrobial "
    "antiviral antihypertensive antibacterial antiparasitic toxic"
).split()
_TABLE = "raw/peptide_multi_class_dataset.csv.gz"
_SPLIT = "splits_random_stratified_peptide.pickle"
_URL = "https://www.dropbox.com/s"
PEPTIDES = BenchmarkFiles(
    name="peptides-func",
    folder="peptides-functional",
    files=(_TABLE, _SPLIT),
    apart=(
        SingleFile(
            _TABLE,
            f"{_URL}/ol2v01usvaxbsr8/peptide_multi_class_dataset.csv.gz?dl=1",
            "701eb743e899f4d793f0e13c8fa5a1b4",
        ),
        SingleFile(
            _SPLIT,
            f"{_URL}/j4zcnx2eipuo0xz/{_SPLIT}?dl=1",
            "5a0114bdadc80b94fc7ae974f13ef061",
        ),
    ),
    graphs=15_535,
)


@register_dataset(
    "peptides-func",
    source="lrgb",
    options=(),
    content=PEPTIDES.content,
)
def peptides_func(options: DatasetOptions) -> DatasetSource:
    """15,535 peptides of 151 atoms on average in ten classes, of which a peptide may have
    several: 10,873 / 2,331 / 2,331. Scored by average precision, mean over classes."""
    import pandas  # late: it takes long

    with PEPTIDES.reading(options) as folder:
        table = pandas.read_csv(folder / _TABLE)
        labels = [json.loads(text) for text in table["labels"]]
        targets = np.array(labels, dtype=float).reshape(len(table), len(CLASSES))
        rows = load_pickle((folder / _SPLIT).read_bytes())
        splits = {"train": rows["train"], "valid": rows["val"], "test": rows["test"]}
        splits = checked_splits(splits, len(table), "row")
    PEPTIDES.check_count(len(table))
    return DatasetSource(
        smiles=table["smiles"].tolist(),
        targets=targets,
        target_names=CLASSES,
        kind="binary",
        splits=splits,
        parser=PLAIN.read_any,
        **vocabulary_of(PLAIN),
    )
