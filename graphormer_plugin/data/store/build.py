"""Opens the store of a dataset, and builds it first where it is missing, stale or damaged."""

import dataclasses
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rdkit import rdBase

from graphormer_plugin.data.columns import Level, as_rows
from graphormer_plugin.data.errors import (
    DatasetError,
    StoreError,
    agreed,
    counted,
    listed,
    user_code_errors,
)
from graphormer_plugin.data.files import file_lock, read_text, text_sha256, write_csv
from graphormer_plugin.data.graphs.chunk import NODE_SPLITS, FeaturisedRows
from graphormer_plugin.data.graphs.conformers import doubt_of_unit, likely_units
from graphormer_plugin.data.graphs.descriptors import FEATURES, rdkit_descriptors
from graphormer_plugin.data.graphs.featurisers import vocabulary_of
from graphormer_plugin.data.graphs.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.graphs.smiles import lines_about_bare
from graphormer_plugin.data.graphs.sources import text_of
from graphormer_plugin.data.sources.locate import locate
from graphormer_plugin.data.sources.registry import (
    DatasetSource,
    RegisteredDataset,
    code_hash,
)
from graphormer_plugin.data.splits import (
    checked_splits,
    random_split,
    require_rows,
    scaffold_split,
    splits_of_graphs,
)
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.store.custom_splits import with_splits
from graphormer_plugin.data.store.featurise import RowReader, featurise
from graphormer_plugin.data.store.writer import StoreWriter
from graphormer_plugin.data.tables.labels import (
    as_float32,
    checked_bounds,
    checked_weights,
    default_names,
    describe_targets,
    stored_labels,
)
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.targets import DEFAULT_KINDS, TargetSchema, target_kind

logger = logging.getLogger(__name__)


def get_store(options: DatasetOptions) -> GraphStore:
    """Open the store of a dataset, building it first if missing, stale or damaged.

    If several processes ask at once, the first builds and the others wait.
    """
    file = options.split_file
    text = read_text(file) if file else ""  # or an error, before hours of work
    store = _prepared(options)
    return with_splits(store, file, text) if file else store


def _prepared(options: DatasetOptions) -> GraphStore:
    dataset, path, identity = locate(options)
    skip = options.skip_invalid
    store = None
    if not options.rebuild:
        store = _open_if_current(path, identity, skip, announce=False)
    if store is not None:
        return store
    waiting = f"another process prepares {path.name}; waiting for it"
    try:
        with file_lock(path, partial(logger.info, waiting)):
            if not options.rebuild:
                store = _open_if_current(path, identity, skip)
            if store is None:
                import torch  # `--help` does not wait for it

                with torch.random.fork_rng(
                    devices=[]
                ):  # a user's code may seed or draw
                    _build(path, dataset, options, identity)
    except OSError as error:
        place = Path(str(error.filename)).absolute()
        root = path.parent.absolute()
        if not (place.is_relative_to(root) or root.is_relative_to(place)):
            raise
        raise DatasetError(
            f"cannot keep prepared data in {path.parent} ({error.strerror}): name another "
            "folder with --data-root"
        ) from None
    return store or GraphStore.open(path)


def _open_if_current(
    path: Path, identity: Mapping[str, Any], skip_invalid: bool, announce: bool = True
) -> GraphStore | None:
    """The store if it is usable; otherwise None, and with `announce` a log line."""
    if not path.exists():
        return None
    try:
        store = GraphStore.open(path)
    except StoreError as error:
        if announce:
            logger.warning("preparing a store again: %s", error)
        return None
    for name in ("source", "options"):
        stored = store.manifest[name]
        expected = identity[name]
        # None agrees with everything.
        expected = {n: stored.get(n) if v is None else v for n, v in expected.items()}
        if stored != expected:
            if announce:
                logger.info("preparing %s again: its %s changed", path, name)
            return None
    skipped = store.manifest["counts"]["skipped"]
    if skipped and not skip_invalid:
        raise _invalid_error(skipped, _invalid_file(path))
    return store


def _build(
    path: Path,
    dataset: RegisteredDataset,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> None:
    source = dataset.load(options)
    if None in identity["source"].values():  # loading has downloaded the files
        identity = {**identity, "source": dataset.origin(options)}
    source = _with_defaults(source, dataset.name, options)
    build = _build_from_graphs if source.smiles is None else _build_from_smiles
    try:
        build(path, source, options, identity)
    except DatasetError:
        raise
    except ValueError as error:
        raise DatasetError(f"{source.label}: {error}") from error


def _with_defaults(
    source: DatasetSource, name: str, options: DatasetOptions
) -> DatasetSource:
    """A source with the choices of the options where it makes none."""
    of_graphs = source.level is Level.GRAPH
    kind = options.target_kind if of_graphs else DEFAULT_KINDS[source.level]
    changed: dict[str, Any] = {
        "label": source.label or name,
        "unit": source.unit or options.target_unit,
        "kind": source.kind or kind,
    }
    if options.split_file:
        changed["splits"] = {}
    if source.smiles is not None and source.parser is None:
        by_scaffold = source.splits is None and options.split == "scaffold"
        featuriser = options.featuriser
        read = featuriser.read_row
        changed["parser"] = partial(read, scaffold=True) if by_scaffold else read
        changed |= vocabulary_of(featuriser)
        changed["featuriser"] = source.featuriser or featuriser.name
    return dataclasses.replace(source, **changed)


class _Written(NamedTuple):
    """The graphs of a store: the row of each, what its parser gives beside it, descriptors by
    part; and the row, molecule and reason of each failure."""

    row_of_graph: np.ndarray
    extras: dict[str, list[Any]]
    described: list[np.ndarray]
    failures: list[tuple[int, str, str]]


def _written(
    writer: StoreWriter, source: DatasetSource, options: DatasetOptions
) -> _Written:
    """Featurise and write all molecules."""
    rows = [np.zeros(0, np.int64)]
    written = _Written(rows[0], {}, [], [])
    for piece in _featurised(writer, source, options):
        for row, text, reason in piece.failures:
            written.failures.append((source.first_row + row, text, reason))
        if piece.chunk is None or (written.failures and not options.skip_invalid):
            continue  # the rest is parsed only to list all failures
        if source.splits is None and "scaffold" not in piece.extras:
            text = "--split scaffold, but the dataset's parser gives no extras"
            raise ValueError(f'{text}["scaffold"]')
        rows.append(piece.chunk.row)
        for name, values in piece.extras.items():
            written.extras.setdefault(name, []).extend(values)
        if piece.descriptors is not None:
            written.described.append(piece.descriptors)
    return written._replace(row_of_graph=np.concatenate(rows))


def _build_from_smiles(
    path: Path,
    source: DatasetSource,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> None:
    source = _checked_rows(source, options)
    rows = len(source.smiles)
    label = source.label
    target = source.targets
    by_scaffold = source.splits is None
    key = _key(source, options, identity)
    writer = StoreWriter(path, source.node_dims, source.bond_dims, key)
    if options.rebuild:
        shutil.rmtree(writer.folder, ignore_errors=True)
    with writer:
        row_of_graph, extras, described, failures = _written(writer, source, options)
        _report_invalid(path, failures, options.skip_invalid)
        if writer.num_graphs == 0:
            raise ValueError("no molecule could be parsed")
        for line in lines_about_bare(sum(extras.get("bare", ()))):
            logger.warning("%s: %s", label, line)
        doubt = doubt_of_unit(likely_units(extras.get("nearest", ())))

        molecules = extras.get("molecule")
        when = "after unparsable molecules were left out" if failures else ""
        if by_scaffold:
            no_labels = np.zeros((len(row_of_graph), 1))
            splits = scaffold_split(
                extras["scaffold"],
                seed=options.seed,
                labels=no_labels if callable(target) else target[row_of_graph],
                molecules=molecules,
            )
            if not (len(splits["train"]) and len(splits["valid"])):
                when = "(each scaffold goes to one split); give another --split"
        else:
            graph_of_row = np.full(rows, -1, dtype=np.int64)
            graph_of_row[row_of_graph] = np.arange(len(row_of_graph))
            splits = splits_of_graphs(source.splits, graph_of_row, label)
        # A shard may have graphs of one split only.
        if options.shard.is_whole and not options.split_file:
            require_rows(splits, label, when)
        if callable(target):
            with user_code_errors("the function targets"):
                target = target(extras, splits)
        else:
            target = target[row_of_graph]
        writer.finish(
            _kept_rows(source, row_of_graph, rows, target.shape[1], described),
            splits,
            target,
            identity=identity,
            skipped=len(failures),
            rows=rows,
            molecules=molecules,
            texts=extras.get("identity"),
            doubts=[doubt] if doubt and not options.length_unit else [],
        )


def _kept_rows(
    source: DatasetSource,
    row_of_graph: np.ndarray | slice,
    rows: int,
    width: int,
    described: Sequence[np.ndarray] = (),
) -> DatasetSource:
    """The source with a row per graph, the ``row_of_graph`` of its ``rows``; ``described`` has the
    descriptors of the graphs, part by part."""
    weights = (
        None if source.weights is None else np.asarray(source.weights)[row_of_graph]
    )
    bounds = None if source.bounds is None else np.asarray(source.bounds)[row_of_graph]
    names = list(source.graph_features)
    numbers = _graph_values(source, rows)[row_of_graph]
    if described:
        names += FEATURES
        numbers = np.concatenate([as_float32(numbers), np.concatenate(described)], 1)
    return dataclasses.replace(
        source,
        weights=weights,
        bounds=bounds,
        graph_features=names,
        graph_values=numbers,
        unread={n: np.array(cells)[row_of_graph] for n, cells in source.unread.items()},
        target_names=source.target_names or default_names(width),
    )


def _graph_values(source: DatasetSource, rows: int) -> np.ndarray:
    """Float64 [rows, K] of the features that a source names."""
    names = list(source.graph_features)
    if not names:
        return np.empty((rows, 0))
    values = np.asarray(source.graph_values, np.float64)
    if values.shape != (rows, len(names)):
        raise ValueError(
            f"graph_values have shape {list(values.shape)}, expected "
            f"[{rows}, {len(names)}] for the features {names}"
        )
    return values


def _checked_rows(source: DatasetSource, options: DatasetOptions) -> DatasetSource:
    """The source with splits, targets and weights of its rows as arrays, checked before
    hours of work; without splits for a split by scaffold."""
    rows = len(source.smiles)
    target = source.targets
    splits = source.splits
    weights = source.weights
    if splits is None and options.split.startswith(("column:", "time:")):
        raise ValueError(f"only a CSV can be split by {options.split!r}")
    if splits is None and options.split != "scaffold":
        splits = random_split(rows, options.seed)
    if splits is not None:
        splits = checked_splits(splits, rows, "row")
    if not callable(target):
        target = stored_labels(as_rows(np.asarray(target, dtype=np.float64)))
        names = list(source.target_names or default_names(target.shape[1]))
        schema = TargetSchema.of(
            names, kind=source.kind, num_classes=source.num_classes
        )
        describe_targets(target, schema, np.arange(rows + 1), {})
        if source.bounds is not None:
            checked_bounds(source.bounds, target)
    _graph_values(source, rows)
    if weights is not None:
        weights = checked_weights(weights, rows)
    return dataclasses.replace(source, splits=splits, targets=target, weights=weights)


def _featurised(
    writer: StoreWriter, source: DatasetSource, options: DatasetOptions
) -> Iterator[FeaturisedRows]:
    """Yield all rows, in parts that the writer has: first the parts of a stopped build."""
    first = 0
    describe = None
    for piece in writer.finished():
        first = piece.end
        yield piece
    if first:
        logger.info("continuing after %s finished rows", f"{first:,}")
    if options.descriptors:
        describe = partial(rdkit_descriptors, parse=options.featuriser.mol)
    for piece in featurise(
        source.smiles,
        RowReader(source.parser, options.max_atoms),
        first=first,
        workers=options.workers,
        progress=options.progress,
        description=source.label,
        exclude=source.exclude,
        describe=describe,
        user_data_dir=options.user_data_dir,
    ):
        writer.append(piece)
        yield piece


def _key(
    source: DatasetSource, options: DatasetOptions, identity: Mapping[str, Any]
) -> Any:
    """Everything that the graphs of a source of SMILES depend on."""
    parser = source.parser
    smiles = "\n".join(map(text_of, source.smiles))
    function = getattr(parser, "func", parser)
    key = [
        identity,
        getattr(function, "__qualname__", repr(function)),
        code_hash(function),
        getattr(parser, "keywords", {}),
        sorted(source.exclude),
        (rdBase.rdkitVersion, text_sha256(smiles)),
    ]
    if options.descriptors:
        key.append(code_hash(rdkit_descriptors))
    return key


def _build_from_graphs(
    path: Path,
    source: DatasetSource,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> None:
    splits = source.splits
    label = source.label
    if splits is None and options.split not in ("", "random"):
        raise ValueError(f"graphs cannot be split by {options.split!r}")
    if [*source.exclude]:
        raise ValueError("exclude is for SMILES; give the other graphs only")
    vocabularies = (source.node_dims, source.bond_dims)
    kinds = map(target_kind, np.atleast_1d(source.kind).tolist())
    with StoreWriter(path, *vocabularies, level=source.level) as writer:
        width = 1
        masked = {name: [np.zeros(0, np.int64)] for name in NODE_SPLITS}
        for chunk in chunks_of_graphs(
            source.graphs,
            level=source.level,
            values=all(kind.has_one_output for kind in kinds),
            masks=splits is None and not options.split,
            edge_kind=source.edge_kind,
            progress=options.progress,
            description=label,
        ):
            width = chunk.target.shape[1]
            if chunk.node_split is not None:
                first = writer.num_graphs
                number = np.arange(len(chunk))
                graph = np.repeat(first + number, chunk.num_nodes)
                for code, name in enumerate(NODE_SPLITS, 1):
                    masked[name].append(np.unique(graph[chunk.node_split == code]))
            writer.append(FeaturisedRows(chunk))
        if writer.num_graphs == 0:
            raise ValueError("there are no graphs")
        if len(masked["train"]) > 1:  # a graph may be in each of them
            splits = {name: np.concatenate(parts) for name, parts in masked.items()}
        else:
            if splits is None and source.level is Level.NODE and writer.num_graphs == 1:
                raise ValueError(
                    "a single graph has no splits; give its Data train_mask, val_mask and "
                    "test_mask, and no --split"
                )
            if splits is None:
                splits = random_split(writer.num_graphs, options.seed)
            splits = splits_of_graphs(splits, np.arange(writer.num_graphs), label)
        if not options.split_file:
            require_rows(splits, label, "")
        source = _kept_rows(source, slice(None), writer.num_graphs, width)
        writer.finish(source, splits, identity=identity)


def _report_invalid(
    path: Path, failures: Sequence[tuple[int, str, str]], skip: bool
) -> None:
    """Write the failures (row, SMILES, reason) of a store to a CSV beside it, or remove an
    earlier file if there are none. Failures are an error, with ``skip`` a warning."""
    file = _invalid_file(path)
    if not failures:
        file.unlink(missing_ok=True)
        return
    write_csv(file, [("row", "smiles", "reason"), *failures])
    if not skip:
        *_, reason = failures[0]
        raise _invalid_error(len(failures), file, [row for row, *_ in failures], reason)
    many = counted(len(failures), "molecule", "cannot")
    are = agreed(len(failures), "are")
    logger.warning("%s be parsed and %s left out, listed in %s", many, are, file)


def _invalid_error(
    count: int, file: Path, rows: Sequence[int] = (), reason: str = ""
) -> DatasetError:
    """The error of a store without ``count`` molecules that were not to be left out."""
    where = f"row{'s' * (count > 1)} {listed(rows, 5)}; reasons" if rows else "listed"
    first = f"; the first: {reason}" if reason else ""
    return DatasetError(
        f"{counted(count, 'molecule')} cannot be parsed ({where} in {file}){first}; correct "
        "the source, or leave them out with --skip-invalid"
    )


def _invalid_file(path: Path) -> Path:
    return path.parent / f"{path.name}.invalid.csv"
