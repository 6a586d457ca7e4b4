"""From sources of molecules to chunks of a store, on as many processes as asked for."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.choices import check_least
from graphormer_plugin.data.errors import DatasetError, user_code_errors
from graphormer_plugin.data.graphs.chunk import (
    CHUNK_ROWS,
    FeaturisedRows,
    GraphChunk,
    MoleculeGraph,
)
from graphormer_plugin.data.graphs.conformers import check_size
from graphormer_plugin.data.graphs.featurisers import Featuriser, GraphsOnly
from graphormer_plugin.data.graphs.graph_columns import check_features
from graphormer_plugin.data.graphs.smiles import captured_rdkit_log
from graphormer_plugin.data.graphs.sources import Atoms, MolBlock, Source, Unreadable
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.sources.user_code import import_user_data
from graphormer_plugin.workers import in_workers

logger = logging.getLogger(__name__)

# Workers take seconds to start, because they import this package. In that time, one core
# featurises thousands of molecules, or describes a thousand.
MIN_ROWS_FOR_WORKERS = 16384
MIN_DESCRIBED_FOR_WORKERS = 4096


# Atoms of a SMILES: in brackets, except hydrogens, or of the organic subset.
ATOM = re.compile(r"\[(?!H\])[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")


@dataclass(frozen=True)
class RowReader:
    """Reads sources with a parser; ValueError for molecules of more than ``max_atoms``, before
    RDKit reads them (it crashes on a chain of 20,000), and for codes that are not in all of
    some vocabularies. ``featuriser`` is that of the parser, if it has one."""

    parser: Callable[[Source], MoleculeGraph]
    max_atoms: int
    schemas: Sequence[FeatureSchema] = ()
    featuriser: Featuriser = GraphsOnly()

    def __call__(self, source: Source) -> MoleculeGraph:
        """The graph of a source."""
        if isinstance(source, Atoms):
            check_size(len(source.x), self.max_atoms)
        if isinstance(source, MolBlock) and source.mol is not None:
            check_size(source.mol.GetNumAtoms(), self.max_atoms)
        smiles = str(source)
        if len(smiles) > self.max_atoms:  # an atom has at least one character
            written, *_ = smiles.split(maxsplit=1) or [""]
            # The parser may leave out all fragments but one.
            largest = max(written.split("."), key=len)
            check_size(len(ATOM.findall(largest)), self.max_atoms)
        graph = self.parser(source)
        check_size(len(graph.x), self.max_atoms)
        for schema in self.schemas:
            edges = graph.edge_index.shape[1]
            check_features(graph.x, graph.edge_attr, edges, schema)
        return graph


def num_workers(
    workers: int | None, rows: int, least: int = MIN_ROWS_FOR_WORKERS
) -> int:
    """Number of processes to start; 0 means to work in this process. By default (None) all
    cores that this process may use, but 0 for fewer than ``least`` rows, which do not repay
    the start of workers."""
    if workers is None:
        if rows < least:
            return 0
        workers = len(os.sched_getaffinity(0))
    check_least("--workers", workers, 0)
    return 0 if workers <= 1 else workers


def featurise(
    smiles: Sequence[str],
    reader: RowReader,
    *,
    first: int = 0,
    workers: int | None = None,
    progress: bool = True,
    description: str = "molecules",
    exclude: Iterable[int] = (),
    describe: Callable[[Sequence[str]], np.ndarray] | None = None,
    user_data_dir: str = "",
) -> Iterator[FeaturisedRows]:
    """Parse SMILES into chunks, in their order, from the row ``first`` on.

    Rows to ``exclude`` are left out and are not failures. ``describe`` makes descriptors
    [n, columns] of the SMILES that could be parsed. ``user_data_dir`` is the folder of the
    reader's parser, if it is not in a package.
    """
    excluded = frozenset(exclude)

    def _calls() -> Iterator[tuple[Any, ...]]:
        for start in range(first, len(smiles), CHUNK_ROWS):
            rows = range(start, min(start + CHUNK_ROWS, len(smiles)))
            included = {row: smiles[row] for row in rows if row not in excluded}
            yield reader, describe, rows.stop, included

    # Workers import the modules of the user, whose names pickled calls have.
    start = partial(import_user_data, Path(user_data_dir)) if user_data_dir else None
    least = MIN_ROWS_FOR_WORKERS if describe is None else MIN_DESCRIBED_FOR_WORKERS
    count = num_workers(workers, len(smiles) - first, least)
    with tqdm(
        total=len(smiles),
        initial=first,
        desc=description,
        unit="mol",
        disable=not progress,
        smoothing=0.05,
    ) as bar:
        for piece in in_workers(count, _featurise_rows, _calls(), start):
            yield piece
            bar.update(piece.end - bar.n)


def _featurise_rows(
    reader: RowReader,
    describe: Callable[[Sequence[str]], np.ndarray] | None,
    end: int,
    sources: dict[int, Source],
) -> FeaturisedRows:
    graphs, reasons = read_sources(sources, reader)
    result = FeaturisedRows(None, end=end)
    result.failures = [
        (row, str(sources[row]), reason) for row, reason in reasons.items()
    ]
    if graphs:
        if describe is not None:
            described = describe([sources[row] for row in graphs])
            result.descriptors = described.astype(np.float32)
        for name in next(iter(graphs.values())).extras:
            values = [graph.extras[name] for graph in graphs.values()]
            try:
                result.extras[name] = json.loads(json.dumps(values, default=_listed))
            except TypeError as error:  # a key of a type that JSON lacks
                raise DatasetError(f"extras of the parser: {error}") from None
        result.chunk = joined_graphs(graphs)
    return result


def read_sources(
    sources: Mapping[int, Source], reader: RowReader
) -> tuple[dict[int, MoleculeGraph], dict[int, str]]:
    """Graphs of sources by their rows, and for each other row the reason why it has none."""
    graphs = {}
    reasons = {}
    with captured_rdkit_log() as messages, user_code_errors("the parser"):
        for row, source in sources.items():
            try:
                graphs[row] = parse(source, reader, messages)
            except ValueError as error:
                reasons[row] = str(error)
    return graphs, reasons


def joined_graphs(graphs_of_rows: Mapping[int, MoleculeGraph]) -> GraphChunk:
    """Join graphs of a parser, at least one, by the rows of their source."""
    rows, graphs = zip(*graphs_of_rows.items())
    return GraphChunk(
        num_nodes=np.array([len(graph.x) for graph in graphs]),
        num_edges=np.array([graph.edge_index.shape[1] for graph in graphs]),
        x=np.concatenate([graph.x for graph in graphs]),
        edge_index=np.concatenate([graph.edge_index for graph in graphs], axis=1),
        edge_attr=np.concatenate([graph.edge_attr for graph in graphs]),
        row=np.array(rows),
        attributes={
            name: np.concatenate([getattr(graph, name) for graph in graphs])
            for name in ("pos", "forces")
            if getattr(graphs[0], name) is not None
        },
    )


def _listed(value: Any) -> Any:
    """A NumPy number or array of an extra as JSON has it, in which parts are kept."""
    if not isinstance(value, np.generic | np.ndarray):
        type_name = type(value).__name__
        raise ValueError(
            f"extras of the parser hold a {type_name}, expected what JSON can"
        )
    return value.tolist()


def parse(
    source: Source,
    parser: Callable[[Source], MoleculeGraph],
    messages: list[str],
) -> MoleculeGraph:
    """Graph of a source; ValueError with RDKit's reason, or else the parser's, if it is
    refused."""
    messages.clear()
    try:
        if isinstance(source, Unreadable):
            raise ValueError(source.reason)
        graph = parser(source)
        if len(graph.x) == 0:
            raise ValueError("no atoms")
    except ValueError as error:
        reasons = [*messages[:1], str(error), "RDKit refuses it"]  # a text may be empty
        reason = next(filter(str.strip, reasons))
        raise ValueError(" ".join(reason.split())) from None
    return graph
