"""``graphormer-predict``: numbers for a CSV of molecules."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from tqdm import tqdm

from graphormer_plugin import hub
from graphormer_plugin.cli import command
from graphormer_plugin.data.chunk import (
    CHUNK_ROWS,
    FeaturisedRows,
    GraphChunk,
    MoleculeGraph,
)
from graphormer_plugin.data.columns import check_features
from graphormer_plugin.data.datasets.csv_file import CsvTable
from graphormer_plugin.data.featurise import featurise_pieces, num_workers
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.inference.embedding import check_layers
from graphormer_plugin.inference.resumable_writer import GrowingFiles, part_record
from graphormer_plugin.modules.dropout import dropout_switched_on

BLOCK_ROWS = 2048
RECORD_VERSION = 1
REASON = "reason"


def parser() -> argparse.ArgumentParser:
    """Arguments."""
    result = argparse.ArgumentParser(
        prog="graphormer-predict",
        description="Predict the molecules of a CSV file. The output has its rows and "
        "columns, and behind them the prediction, and the reason where there is none.",
    )
    add = result.add_argument
    add(
        "checkpoints",
        metavar="CKPT",
        nargs="+",
        help="checkpoint that was trained here; several are an ensemble, of which mean "
        "and standard deviation are written",
    )
    add("input", metavar="INPUT.csv", help="with a header; may end in .csv.gz")
    add("output", metavar="OUTPUT.csv", help="must not exist")
    add(
        "--smiles-column",
        default="",
        help="default: the column called smiles, or the only one with smiles in its name",
    )
    add(
        "--mc-dropout",
        type=int,
        default=0,
        metavar="K",
        help="predict K times with dropout switched on, and write mean and standard "
        "deviation",
    )
    add("--seed", type=int, default=1, help="of --mc-dropout")
    add(
        "--embeddings",
        metavar="OUT.npy",
        help="also write a vector per row, float32; those of rows without prediction "
        "are NaN",
    )
    add(
        "--nodes",
        action="store_true",
        help="with --embeddings: a vector per atom, row after row, and in OUT.count.npy "
        "the number of atoms of each row",
    )
    add(
        "--layers",
        type=int,
        default=1,
        metavar="N",
        help="with --embeddings: the last N layers side by side (default: 1)",
    )
    add(
        "--batch-size",
        type=int,
        default=128,
        help="molecules a batch, fewer of large ones (default: 128)",
    )
    add("--device", help="cpu, cuda or cuda:1; default: a GPU if there is one")
    add(
        "--workers",
        type=int,
        help="processes that read SMILES; default: all cores for many rows, else none",
    )
    add(
        "--resume",
        action="store_true",
        help="go on behind the rows that an interrupted run has written",
    )
    add(
        "--user-data-dir",
        help="folder with modules that register what the model needs: its architecture, "
        "pair encodings or substructures",
    )
    add("--quiet", action="store_true", help="no progress bar")
    add("--debug", action="store_true", help="show the traceback of an error")
    return result


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns its exit code."""
    # Options may stand between the checkpoints and the files.
    arguments = parser().parse_intermixed_args(argv)
    check_arguments(arguments)
    output = Path(arguments.output)
    if arguments.resume and output.exists() and not part_record(output).exists():
        print(f"{output} is there, and no run to go on with: nothing is done")
        return 0
    table = CsvTable(Path(arguments.input))
    column = table.find_smiles(arguments.smiles_column)
    # All of it is read first: what is wrong with the last row is not found after hours.
    total = sum(1 for _ in table.rows([column]))
    if total == 0:
        raise ValueError(f"{table.path}: there are no rows below the header")
    model = Ensemble(load_all(arguments), arguments)
    *names, reason = free_names([*model.names, REASON], table.header)
    files = GrowingFiles(
        output,
        [*table.header, *names, reason],
        model.arrays(),
        run_key(arguments, column),
        arguments.resume,
    )
    first, started = files.rows, time.monotonic()
    bar = tqdm(
        total=total, initial=first, unit="mol", disable=arguments.quiet, smoothing=0.05
    )
    try:
        with bar:
            workers = num_workers(arguments.workers, total - first)
            for block in blocks(
                table,
                column,
                first,
                max(BLOCK_ROWS, 4 * arguments.batch_size),
                model.featuriser,
                workers,
            ):
                files.append(*model(block, files.rows))
                bar.update(len(block.cells))
        files.finish()
    except BaseException:
        if files.rows:
            text = f"the first {files.rows:,} rows are kept; go on with --resume"
            print(text, file=sys.stderr)
        raise
    finally:
        files.close()
    rate = (total - first) / (time.monotonic() - started)
    failed = f", {files.failed:,} without prediction" if files.failed else ""
    print(f"{output}: {total:,} rows{failed}; {model.what}; {rate:,.0f} molecules/s")
    if files.failed == total:
        print(
            f"warning: nothing in column {column!r} could be predicted; the reasons are "
            f"in column {reason!r}. --smiles-column names another one",
            file=sys.stderr,
        )
    return 0


def check_arguments(arguments: argparse.Namespace) -> None:
    """Refuses options that make no sense, before anything is loaded.

    Raises:
        ValueError: one line that names the option.
    """
    for name, least in (("batch_size", 1), ("layers", 1), ("mc_dropout", 0)):
        if getattr(arguments, name) < least:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{flag} {getattr(arguments, name)}, expected {least} or more"
            )
    if arguments.seed < 0:
        raise ValueError(f"--seed {arguments.seed}, expected 0 or more")
    if arguments.embeddings is None and (arguments.nodes or arguments.layers != 1):
        raise ValueError("--nodes and --layers belong to --embeddings OUT.npy")
    if arguments.embeddings is not None and len(arguments.checkpoints) > 1:
        raise ValueError("--embeddings is for one checkpoint, not for an ensemble")
    if arguments.mc_dropout == 1:
        raise ValueError("--mc-dropout 1 has no spread, expected 2 samples or more")
    for name, suffix in (("output", ".csv"), ("embeddings", ".npy")):
        value = getattr(arguments, name)
        if value is None:
            continue
        path = Path(value)
        if path.suffix != suffix:
            raise ValueError(f"{path}: expected a name that ends in {suffix}")
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}")


def load_all(arguments: argparse.Namespace) -> list[hub.Predictor]:
    """The models of an ensemble, on their device.

    Raises:
        ValueError: one cannot predict molecules, or they predict different things.
    """
    device = usable_device(arguments.device)
    predictors: list[hub.Predictor] = []
    for path in arguments.checkpoints:
        predictor = hub.load(path, arguments.user_data_dir)
        if predictor.targets.level != "graph":
            raise ValueError(f"{path} predicts nodes, not molecules")
        if "pos" in predictor.model.batch_spec.fields:
            raise ValueError(f"{path} reads 3D positions, which SMILES do not have")
        try:
            hub.parser_of(predictor.featuriser)
            if arguments.embeddings:
                check_layers(predictor.model, arguments.layers)
            if arguments.mc_dropout:
                with dropout_switched_on(predictor.model):
                    pass
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        predictors.append(predictor.to(device))
        first, both = predictors[0], f"{path} and {arguments.checkpoints[0]}"
        for name in ("names", "unit", "kind", "num_classes"):
            one, other = getattr(first.targets, name), getattr(predictor.targets, name)
            if one != other:
                raise ValueError(
                    f"{both} predict different things: {name} {other!r} and {one!r}"
                )
        if predictor.featuriser != first.featuriser:
            raise ValueError(f"{both} read different features")
    return predictors


def usable_device(name: Optional[str]) -> torch.device:
    """The device of that name; without one a GPU, or else the CPU.

    Raises:
        ValueError: it cannot be used here.
    """
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {name} cannot be used: {reason}") from None
    return device


def run_key(arguments: argparse.Namespace, column: str) -> str:
    """What a run's rows depend on; one that goes on must agree."""
    parts: list[Any] = [RECORD_VERSION, column, file_sha256(Path(arguments.input))]
    parts.append([file_sha256(Path(path)) for path in arguments.checkpoints])
    parts += [arguments.mc_dropout, arguments.seed, arguments.embeddings is not None]
    parts += [arguments.nodes, arguments.layers]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Featuriser:
    """Parser for worker processes: a graph that all the models can read.

    Args:
        name: key of `datasets.FEATURISERS`.
        schemas: vocabularies of the models.
    """

    def __init__(self, name: str, schemas: Sequence[FeatureSchema]) -> None:
        self.name = name
        self.schemas = list(schemas)

    def __call__(self, smiles: str) -> MoleculeGraph:
        """Raises ValueError with the reason for what is refused."""
        if not smiles:
            raise ValueError("no SMILES")
        graph = hub.parser_of(self.name)(smiles)
        for schema in self.schemas:
            edges = graph.edge_index.shape[1]
            check_features(graph.x, graph.edge_attr, edges, schema)
        return graph


@dataclass
class Block:
    """Consecutive rows of the input.

    Attributes:
        cells: of each row.
        chunk: graphs of the rows that have one; `chunk.row` counts from the first.
        reasons: why there is none, by row.
    """

    cells: list[list[str]]
    chunk: Optional[GraphChunk]
    reasons: dict[int, str]


def blocks(
    table: CsvTable,
    column: str,
    first: int,
    least: int,
    featuriser: Featuriser,
    workers: int,
) -> Iterator[Block]:
    """Rows of a table from one on with their graphs, `least` of them or a few more.

    Batches are cut within a block, and a run that was interrupted goes on at its end.
    """
    place = table.header.index(column)
    cells: list[list[str]] = []  # of the rows that are being featurised

    def pieces() -> Iterator[tuple[list[int], list[str]]]:
        rows = itertools.islice(table.rows(table.header), first, None)
        while piece := list(itertools.islice(rows, CHUNK_ROWS)):
            cells.extend(row for _, _, row in piece)
            smiles = [row[place].strip() for _, _, row in piece]
            yield [number for number, _, _ in piece], smiles

    batches = featurise_pieces(pieces(), featuriser, workers)
    chunks = -(-least // CHUNK_ROWS)
    done = first
    while group := list(itertools.islice(batches, chunks)):
        batch = FeaturisedRows.joined(group)
        if batch.chunk is not None:
            batch.chunk.row = batch.chunk.row - done
        reasons = {row - done: reason for row, _, reason in batch.failures}
        yield Block(cells[: batch.rows], batch.chunk, reasons)
        del cells[: batch.rows]
        done += batch.rows


class Ensemble:
    """What one or several models say about blocks of molecules.

    Args:
        predictors: of the same targets.
        arguments: of the command.

    Attributes:
        names: of the columns that are written.
        what: targets and units, for humans.
        featuriser: makes graphs for them.
    """

    def __init__(
        self, predictors: Sequence[hub.Predictor], arguments: argparse.Namespace
    ) -> None:
        self.predictors = predictors
        self.arguments = arguments
        self.featuriser = Featuriser(
            predictors[0].featuriser, [predictor.schema for predictor in predictors]
        )
        self.targets: TargetSchema = predictors[0].targets
        self.spread = len(predictors) > 1 or arguments.mc_dropout > 0
        names = list(self.targets.names)
        if self.spread:
            names = [name + end for name in names for end in ("", "_std")]
        self.is_class = self.targets.kind == "multiclass"
        if self.is_class:
            classes = range(self.targets.num_classes)
            names += [f"{names[0]}_probability_{number}" for number in classes]
        self.names = names
        meanings = {"binary": "probability", "multiclass": "class"}
        meaning = meanings.get(self.targets.kind, self.targets.unit or "no unit")
        listed = ", ".join(self.targets.names[:3])
        if len(self.targets.names) > 3:
            listed += f" and {len(self.targets.names) - 3} more"
        self.what = f"{listed} ({meaning})"

    def arrays(self) -> dict[Path, tuple[Any, tuple[int, ...]]]:
        """Files of vectors, see `GrowingFiles`."""
        if not self.arguments.embeddings:
            return {}
        path = Path(self.arguments.embeddings)
        width = self.arguments.layers * self.predictors[0].model.embed_dim
        result = {path: (np.float32, (width,))}
        if self.arguments.nodes:
            result[path.with_suffix(".count.npy")] = (np.int64, ())
        return result

    def __call__(
        self, block: Block, first: int
    ) -> tuple[list[list[str]], list[np.ndarray], int]:
        """Predicts.

        Args:
            block: molecules.
            first: row of the input at which it starts.

        Returns:
            Rows of the output, arrays for the files of `arrays`, and how many of the
            rows have no prediction.

        Raises:
            ValueError: the memory does not suffice.
        """
        predicted: dict[int, list[str]] = {}
        rows = [] if block.chunk is None else block.chunk.row.tolist()
        vectors: list[np.ndarray] = []
        try:
            if rows:
                for row, numbers in zip(rows, self.predict(block.chunk, first)):
                    if np.isfinite(numbers).all():
                        predicted[row] = self.cells(numbers)
                    else:
                        block.reasons[row] = "the prediction is not finite"
            if self.arguments.embeddings:
                vectors = self.vectors(block)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            nodes = int(block.chunk.num_nodes.max())
            raise ValueError(
                f"rows {first} to {first + len(block.cells) - 1} do not fit into memory, "
                f"their largest molecule has {nodes:,} atoms; give a --batch-size below "
                f"{self.arguments.batch_size}, or leave out what is too large"
            ) from None
        empty = [""] * len(self.names)
        table = [
            [*cells, *predicted.get(row, empty), block.reasons.get(row, "")]
            for row, cells in enumerate(block.cells)
        ]
        return table, vectors, len(block.cells) - len(predicted)

    def predict(self, chunk: GraphChunk, first: int) -> np.ndarray:
        """float [graphs, len(names)]."""
        size, count = self.arguments.batch_size, self.arguments.mc_dropout
        if count:
            sequence = np.random.SeedSequence([self.arguments.seed, first])
            seeds = sequence.generate_state(len(self.predictors)).tolist()
            samples = np.concatenate(
                [
                    predictor.sample(chunk, count, seed, size)
                    for predictor, seed in zip(self.predictors, seeds, strict=True)
                ]
            )
        else:
            samples = np.stack(
                [predictor.predict(chunk, size) for predictor in self.predictors]
            )
        mean = samples.mean(0)
        if self.is_class:
            best = mean.argmax(1)[:, None]
            columns = [best]
            if self.spread:  # of the probability of that class
                std = samples.std(0, ddof=1)
                columns.append(np.take_along_axis(std, best, 1))
            return np.concatenate([*columns, mean], 1)
        if not self.spread:
            return mean
        return np.stack([mean, samples.std(0, ddof=1)], 2).reshape(len(mean), -1)

    def cells(self, numbers: np.ndarray) -> list[str]:
        """As they are written."""
        cells = [f"{number:.7g}" for number in numbers]
        if self.is_class:
            cells[0] = str(int(numbers[0]))
        return cells

    def vectors(self, block: Block) -> list[np.ndarray]:
        """Rows for each file of `arrays`."""
        arguments = self.arguments
        (width,) = self.arrays()[Path(arguments.embeddings)][1]
        rows = [] if block.chunk is None else block.chunk.row.tolist()
        found: Sequence[np.ndarray] = []
        if rows:
            found = self.predictors[0].embed(
                block.chunk, arguments.layers, arguments.nodes, arguments.batch_size
            )
        if arguments.nodes:
            counts = np.zeros(len(block.cells), np.int64)
            if rows:
                counts[rows] = block.chunk.num_nodes
            return [np.concatenate([np.empty((0, width)), *found]), counts]
        result = np.full((len(block.cells), width), np.nan, np.float32)
        if rows:
            result[rows] = found
        return [result]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU or the CPU refused memory; torch has no class for the latter."""
    classes = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, classes) or "DefaultCPUAllocator" in str(error)


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of new columns, `_predicted` behind those that the input has already."""
    result: list[str] = []
    for name in names:
        while name in taken or name in result:
            name += "_predicted"
        result.append(name)
    return result


if __name__ == "__main__":
    sys.exit(main())
