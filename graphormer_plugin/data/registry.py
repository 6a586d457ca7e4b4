"""Named datasets, and the way from a name to an open store.

A dataset is a function registered under a name. It runs when a store has to be built,
never at import::

    from graphormer_plugin.data import DatasetSource, register_dataset

    @register_dataset("my-molecules")
    def my_molecules(options):
        return DatasetSource(graphs=[...], target_names=["gap"], unit="eV",
                             splits={"train": [...], "valid": [...], "test": [...]})

It may take the `DatasetOptions` or no argument, and may return the dictionary of
Graphormer v2, ``{"dataset", "train_idx", "valid_idx", "test_idx", "source"}``.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import importlib.util
import inspect
import itertools
import logging
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from graphormer_plugin.data.errors import DatasetError, StoreError, WorkerError
from graphormer_plugin.data.files import atomic_write, file_lock, file_sha256
from graphormer_plugin.data.options import DatasetOptions, data_root_folder
from graphormer_plugin.data.parts import SavedParts
from graphormer_plugin.data.prepare import (
    Parser,
    chunks_of_graphs,
    featurise,
    part_rows,
)
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.writer import StoreWriter

logger = logging.getLogger(__name__)


@dataclass
class DatasetSource:
    """What a registered function returns: either ``graphs`` or ``smiles``.

    Attributes:
        graphs: Iterable of PyG ``Data``; see `prepare.chunks_of_graphs`.
        smiles: Sequence of SMILES, one per row.
        parser: Function of one SMILES; default: OGB's features.
        targets: Float [rows, C] with NaN for missing labels, or a function of the
            parser's extras and the splits (both per graph) that returns [G, C]. Not
            for graphs, which carry ``y``.
        splits: Row numbers by split name (train, valid, test); None: as the options
            say, random by default. Rows that could not be parsed drop out.
        target_names: One per target.
        unit: Of a regression target; empty: as the options say.
        kind: ``regression``, ``binary`` or ``multiclass``; empty: as the options say.
        level: ``graph`` or ``node``.
        num_classes: Of a multiclass target; 0: found from the labels.
        node_dims: Number of values per node column; None: found from the data (always
            known for SMILES with the default parser).
        bond_dims: Likewise for bond columns.
        featuriser: Key of `datasets.FEATURISERS` that makes such graphs of SMILES;
            default: ogb for SMILES with the default parser, else none.
        exclude: Rows that are known to be unusable and are left out silently.
        label: Name for humans; default: the dataset's.
    """

    graphs: Optional[Iterable[Any]] = None
    smiles: Optional[Sequence[str]] = None
    parser: Optional[Parser] = None
    targets: Any = None
    splits: Optional[Mapping[str, Any]] = None
    target_names: Sequence[str] = ()
    unit: str = ""
    kind: str = ""
    level: str = "graph"
    num_classes: int = 0
    node_dims: Optional[list[int]] = None
    bond_dims: Optional[list[int]] = None
    featuriser: str = ""
    exclude: Iterable[int] = ()
    label: str = ""


@dataclass(frozen=True)
class RegisteredDataset:
    """An entry of `DATASETS`.

    Attributes:
        name: As users give it.
        function: Returns a `DatasetSource` or a v2 dictionary.
        source: Where it comes from, for ``--dataset-source``.
        options: Fields of `DatasetOptions` that its content depends on.
        content: Function of the options that identifies the source's content, for
            example by hashes of files; a store that was made from other content is
            stale. Default: hash of the module's code.
            A value of None stands for files that are not there: a store that was
            made from them is good without them.
        any_source: Accept whatever ``--dataset-source`` says (users' own datasets).
        resolve: Options with the source that ``--dataset-source`` means, which may
            depend on the files that are there; raises DatasetError for one it does not
            know. None: only ``source`` is accepted.
    """

    name: str
    function: Callable[..., Any]
    source: str
    options: tuple[str, ...]
    content: Callable[[DatasetOptions], dict[str, Any]]
    any_source: bool = False
    resolve: Optional[Callable[[DatasetOptions], DatasetOptions]] = None

    def load(self, options: DatasetOptions) -> DatasetSource:
        """Runs the function.

        Raises:
            DatasetError: It fails, or returns something else; or options were given
                that it cannot have read and that its result overrules.
        """
        if self.resolve is not None:
            options = self.resolve(options)
        takes_options = bool(inspect.signature(self.function).parameters)
        try:
            result = self.function(options) if takes_options else self.function()
        except DatasetError:
            raise
        except Exception as error:
            where = _place_of(error, inspect.getsourcefile(self.function) or "")
            raise DatasetError(f"dataset {self.name!r} failed {where}") from error
        source = _as_source(result, self.name)
        if not takes_options:
            unread = ["smiles_column", "target_columns"]
            unread += ["split"] if source.splits is not None else []
            unread += ["target_kind"] if source.kind else []
            unread += ["target_unit"] if source.unit else []
            self.refuse(options, unread)
        return source

    def refuse(self, options: DatasetOptions, unread: Iterable[str]) -> None:
        """DatasetError if an option that the dataset does not read was given."""
        for name in unread:
            if getattr(options, name) != getattr(DatasetOptions, name):
                raise DatasetError(
                    f"dataset {self.name!r} does not read --{name.replace('_', '-')}; "
                    "leave it out"
                )


DATASETS: dict[str, RegisteredDataset] = {}

# Options that a dataset may not have a use for.
_OPTIONAL = ("split", "smiles_column", "target_columns", "target_kind", "target_unit")


def register_dataset(
    name: str,
    *,
    source: str = "user",
    options: Sequence[str] = (
        "seed",
        "split",
        "smiles_column",
        "target_columns",
        "target_kind",
        "target_unit",
    ),
    content: Optional[Callable[[DatasetOptions], dict[str, Any]]] = None,
    resolve: Optional[Callable[[DatasetOptions], DatasetOptions]] = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function as a dataset; see the module's text.

    Args:
        name: For ``--dataset-name``.
        source: See `RegisteredDataset`, likewise the others.
        options: See `RegisteredDataset`.
        content: See `RegisteredDataset`.
        resolve: See `RegisteredDataset`.

    Raises:
        DatasetError: The name is taken.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in DATASETS:
            taken = inspect.getsourcefile(DATASETS[name].function)
            raise DatasetError(f"dataset {name!r} is registered already, in {taken}")
        DATASETS[name] = RegisteredDataset(
            name,
            function,
            source,
            tuple(options),
            content or (lambda _: {"code": _code_hash(function)}),
            any_source=source == "user",
            resolve=resolve,
        )
        return function

    return register


def get_store(options: DatasetOptions) -> GraphStore:
    """Opens the store of a dataset, building it first if missing, stale or damaged.

    Several processes may ask at once: one builds, the others wait.

    Raises:
        DatasetError: The dataset is unknown or its source cannot be read as asked.
        StoreError: The store cannot be opened even though it was just built.
    """
    dataset, path, identity = locate(options)
    skip = options.skip_invalid
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(
            f"cannot keep prepared data in {path.parent} ({error.strerror}): name "
            "another folder with --data-root"
        ) from None
    if not options.rebuild:
        store = _open_if_current(path, identity, skip, announce=False)
        if store is not None:
            return store

    def waiting() -> None:
        logger.info("another process prepares %s; waiting for it", path.name)

    with file_lock(path, waiting):
        if not options.rebuild:
            store = _open_if_current(path, identity, skip)
            if store is not None:
                return store
        _build(path, dataset, options, identity)
        return GraphStore.open(path)


def locate(
    options: DatasetOptions,
) -> tuple[RegisteredDataset, Path, dict[str, Any]]:
    """Finds dataset, folder of its store, and what the store must have come from.

    Returns:
        The registered dataset; the folder; ``{"source": ..., "options": ...}``.
    """
    dataset = find_dataset(options)
    dataset.refuse(options, [o for o in _OPTIONAL if o not in dataset.options])
    if dataset.resolve is not None:
        options = dataset.resolve(options)
    used = {}
    for name in dataset.options:
        value = getattr(options, name)
        used[name] = list(value) if isinstance(value, tuple) else value
    if "seed" in used and used.get("split", "") not in ("", "random"):
        del used["seed"]
    content = dataset.content(options)
    identity = {
        "source": {"name": dataset.source, **content},
        "options": used,
    }
    # The content of a CSV is part of its name, so that equal files share a store
    # wherever they lie; code under development replaces its own store instead.
    key: list[Any] = [dataset.name, used]
    if dataset.name == "csv":
        key.append(content)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
    label = Path(options.name).name if dataset.name == "csv" else dataset.name
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-")[:40] or "dataset"
    return dataset, data_root_folder(options) / "stores" / f"{slug}-{digest}", identity


def find_dataset(options: DatasetOptions) -> RegisteredDataset:
    """The dataset that options name.

    Raises:
        DatasetError: It is unknown, or comes from another source than asked.
    """
    from graphormer_plugin.data.datasets import molecules  # registers; imports us

    if options.user_data_dir:
        import_user_data(options.user_data_dir)
    if options.source == "csv" or (
        not options.source
        and options.name not in DATASETS
        and options.name.lower().endswith((".csv", ".csv.gz"))
    ):
        return molecules.CSV
    if options.name not in DATASETS:
        if Path(options.name).expanduser().is_file():
            was = f", not {options.source!r}" if options.source else ""
            raise DatasetError(
                f"{options.name} is a file; to read it as CSV of SMILES give "
                f"--dataset-source csv{was}"
            )
        names = ", ".join(sorted(DATASETS))
        raise DatasetError(
            f"unknown dataset {options.name!r}, expected the path of a .csv file, or "
            f"one of: {names}"
        )
    dataset = DATASETS[options.name]
    open_to_others = dataset.any_source or dataset.resolve is not None
    if options.source not in ("", dataset.source) and not open_to_others:
        raise DatasetError(
            f"dataset {options.name!r} comes from {dataset.source!r}, not from "
            f"{options.source!r}"
        )
    return dataset


def random_split(rows: int, seed: int) -> dict[str, np.ndarray]:
    """A tenth (at least one row) for valid and for test each, the rest for train.

    Args:
        rows: At least 3.
        seed: 0 or more. Equal seeds give equal splits, on every platform.

    Raises:
        DatasetError: There are fewer than 3 rows, or the seed is negative.
    """
    if rows < 3:
        plural = "" if rows == 1 else "s"
        raise DatasetError(
            f"{rows} row{plural} cannot be split into train, valid and test"
        )
    if seed < 0:
        raise DatasetError(f"seed {seed} for a random split, expected 0 or more")
    order = np.random.Generator(np.random.PCG64(seed)).permutation(rows)
    part = max(1, rows // 10)
    return {
        "train": np.sort(order[2 * part :]),
        "valid": np.sort(order[:part]),
        "test": np.sort(order[part : 2 * part]),
    }


# -------------------------------------------------------------------- building


def _open_if_current(
    path: Path, identity: Mapping[str, Any], skip_invalid: bool, announce: bool = True
) -> Optional[GraphStore]:
    """The store if it can be used as it is; else None, and `announce` says why."""
    if not path.exists():
        return None
    try:
        store = GraphStore.open(path)
    except StoreError as error:
        if announce:
            logger.warning("preparing a store again: %s", error)
        return None
    for name in ("source", "options"):
        if not _agree(store.manifest[name], identity[name]):
            if announce:
                logger.info("preparing %s again: its %s changed", path, name)
            return None
    skipped = store.manifest["counts"]["skipped"]
    if skipped and not skip_invalid:
        raise _invalid_error(skipped, invalid_file(path))
    return store


def _agree(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether a store's identity is what is asked for; None agrees with everything."""
    return stored.keys() == asked.keys() and all(
        value is None or stored[name] == value for name, value in asked.items()
    )


def invalid_file(path: Path) -> Path:
    """CSV (row, smiles, reason) of the molecules that a build could not parse."""
    return path.parent / f"{path.name}.invalid.csv"


def _invalid_error(count: int, file: Path) -> DatasetError:
    plural = "s" if count > 1 else ""
    try:
        with open(file, newline="", encoding="utf-8") as handle:
            lines = itertools.islice(csv.DictReader(handle), 5)
            rows = ", ".join(line["row"] for line in lines)
        more = ", ..." if count > 5 else ""
        where = f"row{plural} {rows}{more}; reasons in {file}"
    except FileNotFoundError:  # an earlier build wrote it, and somebody removed it
        where = "--skip-invalid --rebuild lists them"
    return DatasetError(
        f"{count:,} molecule{plural} cannot be parsed ({where}); correct the source, "
        "or leave them out with --skip-invalid"
    )


def _build(
    path: Path,
    dataset: RegisteredDataset,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> None:
    source = dataset.load(options)
    if None in identity["source"].values():  # files that loading has brought
        _, _, identity = locate(options)
    label = source.label or dataset.name
    try:
        if source.smiles is not None:
            _build_from_smiles(path, source, label, options, identity)
        else:
            _build_from_graphs(path, source, label, options, identity)
    except (DatasetError, StoreError):
        raise
    except ValueError as error:
        raise DatasetError(f"{label}: {error}") from error


def _build_from_smiles(
    path: Path,
    source: DatasetSource,
    label: str,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> None:
    from graphormer_plugin.data.datasets import molecules

    rows = len(source.smiles)
    exclude = frozenset(source.exclude)
    by_scaffold = source.splits is None and options.split == "scaffold"
    parser, node_dims, bond_dims = source.parser, source.node_dims, source.bond_dims
    if parser is None:
        parser = molecules.parser(scaffold=by_scaffold)
        node_dims, bond_dims = molecules.feature_dims()
    splits = source.splits
    if splits is None and options.split.startswith("column:"):
        raise DatasetError(f"{label}: only a CSV can be split by {options.split!r}")
    if splits is None and not by_scaffold:
        splits = random_split(rows, options.seed)

    failures: list[tuple[int, str, str]] = []
    extras: dict[str, list[Any]] = {}
    graph_of_row = np.full(rows, -1, dtype=np.int64)
    parts = _parts(path, source, parser, options, identity)
    with (
        _kept_if_killed(parts),
        StoreWriter(path, node_dims=node_dims, bond_dims=bond_dims) as writer,
    ):
        for batch in featurise(
            source.smiles,
            parser,
            workers=options.workers,
            progress=options.progress,
            description=label,
            exclude=exclude,
            parts=parts,
        ):
            failures += batch.failures
            if batch.chunk is None or (failures and not options.skip_invalid):
                continue  # the rest is only looked at for more failures
            start = writer.num_graphs
            graph_of_row[batch.chunk.row] = np.arange(start, start + len(batch.chunk))
            for name, values in batch.extras.items():
                extras.setdefault(name, []).extend(values)
            writer.append(batch.chunk)
        _report_failures(path, failures, options.skip_invalid)
        if writer.num_graphs == 0:
            raise DatasetError(f"{label}: no molecule could be parsed")

        if by_scaffold:
            splits = molecules.scaffold_split(extras["scaffold"])
        else:
            splits = _splits_of_graphs(splits, graph_of_row, label)
        when = "after unparsable molecules were left out" if failures else ""
        if by_scaffold and not len(splits["train"]):
            when = (
                "(each scaffold goes to one split, and the largest has more than 80 % "
                "of the molecules); give another --split"
            )
        _require_rows(splits, label, when)
        if callable(source.targets):
            target = source.targets(extras, splits)
        else:
            target = np.asarray(source.targets, dtype=np.float64)
            target = target[:, None] if target.ndim == 1 else target
            if len(target) != rows:
                raise DatasetError(
                    f"{label}: targets have {len(target)} rows, smiles have {rows}"
                )
            target = target[graph_of_row >= 0]
        writer.finish(
            dataset=label,
            splits=splits,
            target=target,
            target_names=source.target_names or _default_names(target.shape[1]),
            unit=source.unit or options.target_unit,
            kind=source.kind or options.target_kind,
            num_classes=source.num_classes,
            skipped=len(failures),
            featuriser=source.featuriser or ("" if source.parser else "ogb"),
            **identity,
        )


def _parts(
    path: Path,
    source: DatasetSource,
    parser: Parser,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> SavedParts:
    """Where finished parts of this very preparation are, if it was killed."""
    from rdkit import rdBase

    function = getattr(parser, "func", parser)
    key = [
        identity,
        getattr(function, "__qualname__", repr(function)),
        _code_hash(function),
        getattr(parser, "keywords", {}),
        sorted(source.exclude),
        (part_rows(), rdBase.rdkitVersion, hash_of_rows(source.smiles)),
    ]
    parts = SavedParts(path.parent / f".parts-{path.name}", key)
    if options.rebuild:
        parts.remove()
    return parts


@contextlib.contextmanager
def _kept_if_killed(parts: SavedParts) -> Iterator[None]:
    """Removes the parts, unless the process or a worker is stopped from outside."""
    try:
        yield
    except (WorkerError, MemoryError, OSError):
        raise
    except Exception:
        parts.remove()
        raise
    parts.remove()


def hash_of_rows(rows: Sequence[str]) -> str:
    """Hash of a list of strings."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row.encode() + b"\n")
    return digest.hexdigest()


def _build_from_graphs(
    path: Path,
    source: DatasetSource,
    label: str,
    options: DatasetOptions,
    identity: Mapping[str, Any],
) -> None:
    if options.split and source.splits is None and options.split != "random":
        raise DatasetError(f"{label}: graphs cannot be split by {options.split!r}")
    with StoreWriter(
        path, node_dims=source.node_dims, bond_dims=source.bond_dims
    ) as writer:
        width = 1
        for chunk in chunks_of_graphs(
            source.graphs,
            level=source.level,
            progress=options.progress,
            description=label,
        ):
            width = chunk.target.shape[1] if chunk.target.ndim == 2 else 1
            writer.append(chunk)
        if writer.num_graphs == 0:
            raise DatasetError(f"{label}: there are no graphs")
        splits = source.splits
        if splits is None:
            splits = random_split(writer.num_graphs, options.seed)
        splits = _splits_of_graphs(splits, np.arange(writer.num_graphs), label)
        _require_rows(splits, label, "")
        kind = source.kind or options.target_kind
        if source.level == "node" and not source.kind:
            kind = "multiclass"
        writer.finish(
            dataset=label,
            splits=splits,
            target_names=source.target_names or _default_names(width),
            unit=source.unit or options.target_unit,
            kind=kind,
            num_classes=source.num_classes,
            featuriser=source.featuriser,
            **identity,
        )


def _default_names(width: int) -> list[str]:
    return ["y"] if width == 1 else [f"y{number}" for number in range(width)]


def _report_failures(
    path: Path, failures: list[tuple[int, str, str]], skip: bool
) -> None:
    file = invalid_file(path)
    if not failures:
        file.unlink(missing_ok=True)
        return
    with atomic_write(file, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["row", "smiles", "reason"])
        writer.writerows(failures)
    if not skip:
        raise _invalid_error(len(failures), file)
    logger.warning(
        "%d molecules cannot be parsed and are left out, listed in %s",
        len(failures),
        file,
    )


def _splits_of_graphs(
    splits: Mapping[str, Any], graph_of_row: np.ndarray, label: str
) -> dict[str, np.ndarray]:
    result = {}
    for name, rows in splits.items():
        rows = np.asarray(rows)
        rows = rows.reshape(-1) if rows.size else np.zeros(0, dtype=np.int64)
        if rows.dtype.kind not in "iu":
            raise DatasetError(
                f"{label}: split {name} has dtype {rows.dtype}, expected row numbers"
            )
        wrong = rows[(rows < 0) | (rows >= len(graph_of_row))]
        if wrong.size:
            raise DatasetError(
                f"{label}: split {name} names row {wrong[0]}, expected "
                f"0..{len(graph_of_row) - 1}"
            )
        graphs = graph_of_row[rows]
        result[name] = graphs[graphs >= 0]
    shared = np.intersect1d(result.get("train", []), result.get("valid", []))
    if len(shared):
        logger.warning(
            "%s: %d graphs are both in train and in valid", label, len(shared)
        )
    return result


def _require_rows(splits: Mapping[str, np.ndarray], label: str, when: str) -> None:
    for name in ("train", "valid"):
        if len(splits.get(name, ())) == 0:
            raise DatasetError(f"{label}: no rows in split {name} {when}".rstrip())


def _as_source(result: Any, name: str) -> DatasetSource:
    if isinstance(result, Mapping):
        if "dataset" not in result:
            raise DatasetError(
                f"dataset {name!r} returned a dictionary without 'dataset'"
            )
        if result.get("source", "pyg") not in ("pyg", "ogb"):
            raise DatasetError(
                f"dataset {name!r} has graphs of {result['source']!r}, expected 'pyg'"
            )
        keys = {"train": "train_idx", "valid": "valid_idx", "test": "test_idx"}
        splits = {
            split: result[key]
            for split, key in keys.items()
            if result.get(key) is not None
        }
        result = DatasetSource(graphs=result["dataset"], splits=splits or None)
    if not isinstance(result, DatasetSource):
        raise DatasetError(
            f"dataset {name!r} returned {type(result).__name__}, expected a "
            "DatasetSource"
        )
    if (result.graphs is None) == (result.smiles is None):
        raise DatasetError(f"dataset {name!r} must give either graphs or smiles")
    if result.smiles is not None and result.targets is None:
        raise DatasetError(f"dataset {name!r} gives smiles without targets")
    if result.splits is not None:
        result = dataclasses.replace(
            result,
            splits={split: _to_numpy(rows) for split, rows in result.splits.items()},
        )
    return result


def _to_numpy(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


# ------------------------------------------------------------------ users' folders


def import_user_data(folder: str | os.PathLike[str]) -> None:
    """Imports every public module of a folder, so that its datasets are registered.

    The folder is a package (with or without ``__init__.py``): modules may import each
    other relatively. Imported once; again when a file has changed.

    Raises:
        DatasetError: There is no such folder, no module in it, or an import fails;
            names file and line.
    """
    folder = Path(folder).expanduser().resolve()
    if not folder.is_dir():
        raise DatasetError(f"user data folder {folder} does not exist")
    files = sorted(
        path
        for path in folder.glob("*.py")
        if path.name == "__init__.py" or not path.name.startswith("_")
    )
    if not files:
        raise DatasetError(f"user data folder {folder} has no .py file")
    name = (
        f"graphormer_user_data_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    )
    code = _folder_hash(folder)
    if getattr(sys.modules.get(name), "graphormer_code_hash", None) == code:
        return
    _forget(name)
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    package.graphormer_code_hash = code
    sys.modules[name] = package
    try:
        for file in files:
            _import_file(name, file, package)
    except DatasetError:
        _forget(name)
        raise
    except BaseException as error:
        _forget(name)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise DatasetError(
            f"user data folder {folder}: import failed {_place_of(error, str(folder))}"
        ) from error


def _import_file(package_name: str, file: Path, package: types.ModuleType) -> None:
    if file.name == "__init__.py":
        package.__file__ = str(file)
        exec(compile(file.read_bytes(), str(file), "exec"), package.__dict__)
        return
    name = f"{package_name}.{file.stem}"
    if name in sys.modules:  # another module has imported it
        return
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _forget(package_name: str) -> None:
    def inside(module: str) -> bool:
        return module == package_name or module.startswith(f"{package_name}.")

    for module in [module for module in sys.modules if inside(module)]:
        del sys.modules[module]
    for name in [n for n, d in DATASETS.items() if inside(d.function.__module__)]:
        del DATASETS[name]


def _code_hash(function: Callable[..., Any]) -> str:
    """Hash of the code that a dataset is made by: its folder's, or its file's."""
    package = sys.modules.get(function.__module__.partition(".")[0])
    if hasattr(package, "graphormer_code_hash"):
        return package.graphormer_code_hash
    file = inspect.getsourcefile(function)
    return file_sha256(file) if file and os.path.exists(file) else ""


def _folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(file_sha256(path).encode())
    return digest.hexdigest()


def _place_of(error: BaseException, inside: str) -> str:
    """``at FILE:LINE: Type: message``, the innermost line of the user's own code."""
    if isinstance(error, SyntaxError):
        return f"at {error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if inside and f.filename.startswith(inside)]
    where = f"at {own[-1].filename}:{own[-1].lineno}: " if own else "with "
    message = " ".join(str(error).split())
    return f"{where}{type(error).__name__}: {message}"
