"""The dataset that options name, and where its store is."""

import re
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import text_sha256
from graphormer_plugin.data.sources.csv_file import TableDataset
from graphormer_plugin.data.sources.registry import (
    DATASETS,
    RECOGNISERS,
    RegisteredDataset,
)
from graphormer_plugin.data.sources.user_code import import_user_data
from graphormer_plugin.data.tables.formats import is_table
from graphormer_plugin.data.tables.options import ROWS, TABLE_OPTIONS, DatasetOptions


def locate(options: DatasetOptions) -> tuple[RegisteredDataset, Path, dict[str, Any]]:
    """The dataset, the folder of its store, and what the store must come from,
    ``{"source": ..., "options": ...}``."""
    dataset = find_dataset(options)
    dataset.refuse(options, [o for o in TABLE_OPTIONS if o not in dataset.options])
    options = dataset.resolved(options)
    table = dataset.table if isinstance(dataset, TableDataset) else None
    if not options.shard.is_whole:
        whole_split = options.split == "scaffold" or options.split_file
        if table is None or whole_split:
            raise DatasetError(
                f"--shard is for tables of molecules, not for {dataset.name!r}, and not for "
                "rows of a file or a scaffold split, whose shards would share scaffolds; "
                "give the split in a column (--split column:NAME)"
            )
    used = {}
    for name in dict.fromkeys((*dataset.options, "max_atoms")):
        value = getattr(options, name)
        if value != getattr(DatasetOptions, name):
            used[name] = list(value) if isinstance(value, tuple) else value
    if options.split_file:
        used["split"] = ROWS  # the store has no splits, see `with_splits`
    if used.get("split", "") not in ("", "random", "scaffold"):
        used.pop("seed", None)
    source = dataset.origin(options)
    identity = {"source": source, "options": used}
    # The content of a CSV is part of its name, so that equal files share a store
    # wherever they lie; code under development replaces its own store instead.
    # The shards of a table are in one folder.
    key: list[Any] = [dataset.name, used]
    if table is not None:
        key.append(source)
    shard = options.shard
    if not shard.is_whole:
        used["shard"] = shard.name
        key = [dataset.name, {**used, "shard": shard.count}, table.digest]
    digest = text_sha256(repr(key))[:12]
    label = table.path.name if table else dataset.name
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-")[:40] or "dataset"
    path = options.root / "stores" / f"{slug}-{digest}"
    return dataset, path if shard.is_whole else path / shard.name, identity


def find_dataset(options: DatasetOptions) -> RegisteredDataset:
    """The dataset that options name."""
    if options.user_data_dir:
        import_user_data(Path(options.user_data_dir))
    if options.source == "csv" or (
        not options.source and options.name not in DATASETS and is_table(options.path)
    ):
        return TableDataset.open(options)
    recognised = (recognise(options.path) for recognise in RECOGNISERS)
    dataset = DATASETS.get(options.name) or next(filter(None, recognised), None)
    if dataset is None:
        if options.path.is_file():
            was = f", not {options.source!r}" if options.source else ""
            raise DatasetError(
                f"{options.name} is a file; to read it as CSV of SMILES give "
                f"--dataset-source csv{was}"
            )
        names = ", ".join(sorted(DATASETS))
        raise DatasetError(
            f"unknown dataset {options.name!r}, expected the path of a .csv, .tsv, "
            f".sdf, .xlsx or .parquet file, or one of: {names}"
        )
    sources = dataset.sources
    if options.source and sources and options.source.partition(":")[0] not in sources:
        raise DatasetError(
            f"dataset {options.name!r} comes from {'|'.join(sources)}, not from "
            f"{options.source!r}"
        )
    return dataset
