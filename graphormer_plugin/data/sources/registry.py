"""Named datasets.

A dataset is a function registered under a name. It runs when its store is built, never at
import:

    from graphormer_plugin.data import DatasetSource, register_dataset

    @register_dataset("my-molecules")
    def my_molecules(options):
        return DatasetSource(graphs=[...], target_names=["gap"], unit="eV",
                             splits={"train": [...], "valid": [...], "test": [...]})

It takes the `DatasetOptions` or no argument, and may return the dictionary of Graphormer
v2 instead, ``{"dataset", "train_idx", "valid_idx", "test_idx", "source"}``. A change of its
code prepares the store again; name the files that it opens (``files=["rings.csv"]``) and
anything else that it depends on (``content=lambda options: {"size": sys.argv[1]}``).
"""

import functools
import inspect
import json
import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphormer_plugin.data.columns import Level, learned_level
from graphormer_plugin.data.errors import DatasetError, error_place, user_code_errors
from graphormer_plugin.data.files import PathName, file_sha256, folder_hash, text_sha256
from graphormer_plugin.data.graphs.chunk import MoleculeGraph
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.splits import SPLITS
from graphormer_plugin.data.tables.options import DatasetOptions, flag_of

logger = logging.getLogger(__name__)


@dataclass
class DatasetSource:
    """The result of a registered function: either ``graphs`` or ``smiles``.

    Attributes:
        graphs: iterable of PyG ``Data``; see `pyg_graphs.chunks_of_graphs`.
        smiles: SMILES of each row.
        parser: function of a SMILES; None selects OGB's features.
        targets: float [rows, C] or [rows] with NaN for missing labels, or a function of the
            parser's extras and the splits (both per graph) that returns [G, C]. Not
            for graphs, which carry ``y``.
        splits: rows by split name (train, valid, test). Rows that cannot be parsed drop
            out. None selects the masks of nodes, if graphs have them, or the split that the
            options name, random by default.
        unit: unit of a regression target; empty selects the options' unit.
        kind: ``regression``, ``binary`` or ``multiclass``, of all targets or of each; empty
            selects the options' kind, for other levels `DEFAULT_KINDS`.
        level: what has a label: ``graph``, ``node``, ``edge`` or ``link`` (pair of nodes); SMILES
            have labels of graphs.
        num_classes: classes of a multiclass target; 0 takes them from the labels.
        class_names: names of the classes of each target; empty for numbers.
        weights: float [rows] or [graphs], weight of each in the loss, finite and 0 or
            more; None for equal weights.
        bounds: float [rows, C], see `label_ends`; None if all are exact.
        graph_features: names of K numbers of each row or graph that join the output
            layer.
        graph_values: float [rows, K] or [graphs, K], NaN where missing.
        node_dims: number of values per node column; None takes it from the data. The
            default parser has its own.
        bond_dims: the same for bond columns.
        edge_kind: ``category`` or ``real``: what ``edge_attr`` of graphs is; empty: floats
            are real features, integers are categories.
        featuriser: name of the `Featuriser` that makes such graphs of SMILES. The
            default is ogb for SMILES with the default parser, else none.
        exclude: rows of SMILES that are known to be unusable and are left out silently.
            Not for graphs.
        label: name for humans; empty selects the dataset's.
        first_row: row of the table at which a shard starts; messages count from it.
        unread: cells [rows] of columns that no option reads, by name, for warnings.
    """

    graphs: Iterable[Any] | None = None
    smiles: Sequence[str] | None = None
    parser: Callable[[Any], MoleculeGraph] | None = None
    targets: Any = None
    splits: Mapping[str, Any] | None = None
    target_names: Sequence[str] = ()
    unit: str = ""
    kind: str | Sequence[str] = ""
    level: str = Level.GRAPH
    num_classes: int = 0
    class_names: Sequence[Sequence[str]] = ()
    weights: Any = None
    bounds: Any = None
    graph_features: Sequence[str] = ()
    graph_values: Any = None
    node_dims: list[int] | None = None
    bond_dims: list[int] | None = None
    edge_kind: str = ""
    featuriser: str = ""
    exclude: Iterable[int] = ()
    label: str = ""
    first_row: int = 0
    unread: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RegisteredDataset:
    """An entry of `DATASETS`.

    Attributes:
        name: as users give it.
        function: returns a `DatasetSource` or a v2 dictionary.
        source: where it comes from, for ``--dataset-source``.
        options: fields of `DatasetOptions` that its content depends on.
        content: identifies the source's content, for example by hashes of files. None among
            its values stands for missing files, which a store does not need.
        sources: words of ``--dataset-source``, which a colon may follow; empty accepts
            everything (users' own datasets).
        resolve: returns the options with the source that ``--dataset-source`` means.
        positions: words of ``--positions``, where it is among the ``options``.
    """

    name: str
    function: Callable[..., Any]
    source: str
    options: tuple[str, ...]
    content: Callable[[DatasetOptions], dict[str, Any]]
    sources: tuple[str, ...] = ()
    resolve: Callable[[DatasetOptions], DatasetOptions] | None = None
    positions: tuple[str, ...] = ("none", "rdkit")

    def origin(self, options: DatasetOptions) -> dict[str, Any]:
        """Where a store comes from, as its manifest records it."""
        return {"name": self.source, **self.content(self.resolved(options))}

    def resolved(self, options: DatasetOptions) -> DatasetOptions:
        """See `resolve`."""
        return options if self.resolve is None else self.resolve(options)

    def load(self, options: DatasetOptions) -> DatasetSource:
        """Run the function; DatasetError if it fails or returns something else, or an option
        was given that it cannot have read."""
        options = self.resolved(options)
        arguments = [options] if inspect.signature(self.function).parameters else []
        try:
            result = self.function(*arguments)
        except DatasetError:
            raise
        except (Exception, SystemExit) as error:
            where = error_place(error, inspect.getsourcefile(self.function) or "")
            raise DatasetError(f"dataset {self.name!r} failed {where}") from error
        source = _as_source(result, self.name)
        if not arguments:
            own_splits = source.splits is not None and not options.split_file
            settled = {
                "split": own_splits,
                "target_kind": source.kind or source.level is not Level.GRAPH,
                "target_unit": source.unit,
                "smiles_column": True,
                "target_columns": True,
                "positions": source.smiles is None or source.parser is not None,
            }
            self.refuse(
                options, [name for name, is_settled in settled.items() if is_settled]
            )
        return source

    def refuse(self, options: DatasetOptions, unread: Iterable[str]) -> None:
        """DatasetError if an option that the dataset does not read was given."""
        for name in unread:
            if getattr(options, name) != getattr(DatasetOptions, name):
                raise DatasetError(
                    f"dataset {self.name!r} does not read {flag_of(name)}; leave it out"
                )
        if options.positions not in self.positions:
            raise DatasetError(
                f"dataset {self.name!r}: --positions {options.positions}, expected "
                f"{'|'.join(self.positions)}"
            )


DATASETS: dict[str, RegisteredDataset] = {}
# A benchmark of a user's files, by their path; None for other paths.
RECOGNISERS: list[Callable[[Path], RegisteredDataset | None]] = []
# Options that a user's own dataset may read.
USER_OPTIONS = tuple(
    "seed split smiles_column target_columns target_kind target_unit positions".split()
)


def register_dataset(
    name: str,
    *,
    source: str = "user",
    options: Sequence[str] = USER_OPTIONS,
    content: Callable[[DatasetOptions], dict[str, Any]] | None = None,
    files: Sequence[PathName] = (),
    sources: Sequence[str] = (),
    resolve: Callable[[DatasetOptions], DatasetOptions] | None = None,
    positions: tuple[str, ...] = ("none", "rdkit"),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function as a dataset; see the module's text.

    A function of the same name and module, such as a notebook's cell that is run again,
    replaces the earlier function. A change of the code of a user's own dataset, of the
    ``files`` that it reads, or of its ``content`` makes its store stale. The other arguments
    are those of `RegisteredDataset`.
    """

    def _register(function: Callable[..., Any]) -> Callable[..., Any]:
        earlier = DATASETS.get(name)
        if earlier is not None and not is_made_again(earlier.function, function):
            taken = _origin(earlier.function)
            raise DatasetError(
                f"dataset {name!r} is registered already, by {'.'.join(taken)}"
            )

        def _content(options: DatasetOptions) -> dict[str, Any]:
            if source != "user":
                return content(options)
            with user_code_errors(f"content of dataset {name!r}"):
                identity = content(options) if content else {}
            if files:
                identity["files"] = {
                    os.fspath(file): file_sha256(file) for file in files
                }
            identity = json.loads(
                json.dumps(identity, default=str)
            )  # as a store keeps it
            return identity | {"code": code_hash(function)}

        DATASETS[name] = RegisteredDataset(
            name,
            function,
            source,
            tuple(options),
            _content,
            sources=() if source == "user" else (source, *sources),
            resolve=resolve,
            positions=positions,
        )
        return function

    return _register


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    """Module and name of a function."""
    return function.__module__, function.__qualname__


def _as_source(result: Any, name: str) -> DatasetSource:
    """A `DatasetSource` of the result of a dataset's function, which may be v2's dictionary."""
    if isinstance(result, Mapping):
        form = result.get("source", "pyg")
        if "dataset" not in result or form not in ("pyg", "ogb"):
            raise DatasetError(
                f"dataset {name!r} returned a dictionary with {', '.join(result)} and "
                f"graphs of {form!r}, expected 'dataset', and graphs of pyg|ogb"
            )
        splits = {
            split: result[f"{split}_idx"]
            for split in SPLITS
            if result.get(f"{split}_idx") is not None
        }
        result = DatasetSource(graphs=result["dataset"], splits=splits or None)
    if not isinstance(result, DatasetSource):
        raise DatasetError(
            f"dataset {name!r} returned {type(result).__name__}, expected a "
            "DatasetSource"
        )
    if (result.graphs is None) == (result.smiles is None or result.targets is None):
        raise DatasetError(
            f"dataset {name!r} must give either graphs or smiles with targets"
        )
    try:
        result = replace(result, level=learned_level(result.level))
        featuriser_named(result.featuriser)
    except ValueError as error:
        raise DatasetError(f"dataset {name!r}: {error}") from None
    if result.smiles is None:
        return result
    if result.level is not Level.GRAPH:
        raise DatasetError(
            f"dataset {name!r} has labels of {result.level}s, which SMILES do not carry; "
            "give graphs"
        )
    # A column of a table counts by its own index.
    return replace(result, smiles=list(result.smiles))


def code_hash(function: Callable[..., Any]) -> str:
    """Hash of the code that a function of a user may depend on: the folder of its package
    (of this package: its file), its file, or its cell of a notebook. Code from standard input
    or `exec` cannot be read: every process prepares its data again."""
    name = (function.__module__ or "").partition(".")[0]
    package = sys.modules.get(name)
    if hasattr(package, "graphormer_code_hash"):
        return package.graphormer_code_hash
    if hasattr(package, "__path__") and name != __name__.partition(".")[0]:
        return "".join(folder_hash(Path(folder)) for folder in package.__path__)
    file = inspect.getsourcefile(function)
    if file and os.path.exists(file):
        return file_sha256(file)
    try:
        cell = "".join(inspect.findsource(function)[0])
    except OSError:
        return _unknown_code(function)
    return text_sha256(cell)


def is_made_again(earlier: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether a function replaces one that is registered: it has the same name in the same
    module or notebook, or stands at the same place of a file that is imported again."""

    def _place(function: Callable[..., Any]) -> tuple[str, ...]:
        code = getattr(function, "__code__", None)
        return () if code is None else (code.co_filename, code.co_qualname)

    return _origin(earlier) == _origin(function) or _place(earlier) == _place(function)


@functools.cache
def _unknown_code(function: Callable[..., Any]) -> str:
    logger.warning(
        "the code of %s comes from standard input or exec and cannot be read: each process "
        "prepares its data again; write it to a file",
        function.__qualname__,
    )
    return uuid.uuid4().hex
