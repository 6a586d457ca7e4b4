"""Predictions and vectors of one or several models for a table of molecules."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from graphormer_plugin.data.chunk import CHUNK_ROWS, FeaturisedRows, GraphChunk
from graphormer_plugin.data.datasets.csv_file import number_of
from graphormer_plugin.data.errors import is_out_of_memory
from graphormer_plugin.data.featurise import featurise_pieces
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.table import Table
from graphormer_plugin.inference.checkpoint import checkpoint_path
from graphormer_plugin.inference.classes import ClassWords, class_labels
from graphormer_plugin.inference.domain import IN_DOMAIN, unlike_training
from graphormer_plugin.inference.embedding import check_fingerprint, check_layers
from graphormer_plugin.inference.kernels import shared_features
from graphormer_plugin.inference.loading import BESIDE, load
from graphormer_plugin.inference.model_folder import (
    EnsemblePredictor,
    ModelFolder,
    check_agreement,
    read_folder,
)
from graphormer_plugin.inference.molecules import Featuriser, parser_of, smiles_of
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.inference.values import (
    SpreadScale,
    describe,
    mean_and_variance,
)
from graphormer_plugin.modules.dropout import dropout_switched_on

BLOCK_ROWS = 512  # rows that are predicted together, at least
REASON = "reason"  # column that says why a row has no prediction


@dataclass
class Block:
    """Consecutive rows of the input.

    Attributes:
        cells: the cells of each row.
        smiles: the molecule of each row.
        chunk: graphs of the rows that have one; ``chunk.row`` counts from the block's
            first row.
        reasons: why a row has no graph, by row.
        extra: numbers of the columns that models need [rows, columns].
    """

    cells: list[list[str]]
    smiles: list[str]
    chunk: GraphChunk | None
    reasons: dict[int, str]
    extra: np.ndarray


class PredictedBlock(NamedTuple):
    """What a block becomes.

    Attributes:
        rows: of the output.
        arrays: for the files of `Ensemble.arrays`.
        failed: number of rows without prediction.
        unlike: see `unlike_training`.
    """

    rows: list[list[str]]
    arrays: list[np.ndarray]
    failed: int
    unlike: Counter[str]


def blocks(
    table: Table,
    column: str,
    first: int,
    end: int,
    min_rows: int,
    featuriser: Featuriser,
    workers: int,
    extra_columns: Sequence[str] = (),
) -> Iterator[Block]:
    """Yield the rows of a table and their graphs in blocks.

    Batches do not cross blocks, and an interrupted run goes on at the end of a block.

    Args:
        table: the input.
        column: its column of SMILES.
        first: row to start at.
        end: row to stop before.
        min_rows: rows of a block, rounded up to whole chunks.
        featuriser: turns a SMILES into a graph.
        workers: processes that do so; 0 for none.
        extra_columns: columns of numbers to read; a row with other text has no
            prediction.
    """
    place = table.header.index(column)
    extra_places = [table.header.index(name) for name in extra_columns]
    cells: list[list[str]] = []  # of the rows that are being featurised

    def pieces() -> Iterator[tuple[list[int], list[str]]]:
        rows = table.rows_between(table.header, first, end)
        while piece := list(itertools.islice(rows, CHUNK_ROWS)):
            cells.extend(row for _, _, row in piece)
            smiles = [row[place].strip() for _, _, row in piece]
            yield [number for number, _, _ in piece], smiles

    batches = featurise_pieces(pieces(), featuriser, workers)
    chunks = -(-min_rows // CHUNK_ROWS)
    done = first
    while group := list(itertools.islice(batches, chunks)):
        batch = FeaturisedRows.joined(group)
        if batch.chunk is not None:
            batch.chunk.row = batch.chunk.row - done
        reasons = {row - done: reason for row, _, reason in batch.failures}
        rows = cells[: batch.rows]
        smiles = [row[place].strip() for row in rows]
        extra = np.full((len(rows), len(extra_places)), np.nan)
        for number, row in enumerate(rows):
            try:
                extra[number] = [
                    number_of(row[at], "regression") for at in extra_places
                ]
            except ValueError as error:
                reasons.setdefault(number, str(error))
        yield Block(rows, smiles, batch.chunk, reasons, extra)
        del cells[: batch.rows]
        done += batch.rows


@dataclass(frozen=True)
class Vectors:
    """Vectors to write beside the predictions.

    Attributes:
        path: a ``.npy`` file.
        nodes: a vector per atom instead of per molecule. A second file,
            ``<name>.count.npy``, has the number of atoms of each row.
        layers: number of last layers whose vectors are concatenated.
        fingerprint: GRPE's fingerprints (see `layer_vectors`).
    """

    path: Path
    nodes: bool = False
    layers: int = 1
    fingerprint: bool = False


class Ensemble:
    """One or several models that predict blocks of molecules.

    Args:
        predictors: models by the path of their checkpoint, for messages.
        batch_size: graphs per batch.
        mc_dropout: samples with dropout switched on; 0 for one prediction without.
        seed: of these samples.
        max_atoms: atoms of the largest molecule; None for the smallest limit of the
            models.
        vectors: vectors to compute too; for a single model.
        scale: calibration of the spread.
        weights: how much each model counts; None for equal ones.

    Attributes:
        names: names of the predicted columns.
        numbers: whether each of them has numbers.
        domains: of the models that have one.
        description: targets and units, for people.
        featuriser: makes graphs that all models can read.
        extra_columns: numbers that the models need beside the molecules.

    Raises:
        ValueError: a model cannot predict molecules, or two models do not predict the
            same targets from the same features.
    """

    def __init__(
        self,
        predictors: Sequence[tuple[str, Predictor]],
        *,
        batch_size: int = 128,
        mc_dropout: int = 0,
        seed: int = 1,
        max_atoms: int | None = None,
        vectors: Vectors | None = None,
        scale: SpreadScale | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.predictors = [predictor for _, predictor in predictors]
        self.batch_size = batch_size
        self.mc_dropout = mc_dropout
        self.seed = seed
        self.vectors = vectors
        for path, predictor in predictors:
            self._check(path, predictor)
            check_agreement(predictors[0], (path, predictor))
        self.together = EnsemblePredictor(self.predictors, scale, weights)
        first = self.predictors[0]
        self.featuriser = Featuriser(
            first.featuriser,
            [predictor.schema for predictor in self.predictors],
            max_atoms or min(predictor.max_atoms for predictor in self.predictors),
        )
        self.targets: TargetSchema = first.targets
        self.extra_columns = first.extra_columns
        members = self.predictors
        self.has_spread = (
            len(members) > 1
            or mc_dropout > 0
            or any(member.head is not None for member in members)
        )
        self.domains = [one.domain for one in members if one.domain is not None]
        names = list(self.targets.names)
        if self.has_spread:
            names = [name + end for name in names for end in ("", "_std")]
        if self.targets.kind == "multiclass":
            names += [f"{names[0]}_probability_{c}" for c in class_labels(self.targets)]
        if self.domains:
            names.append(IN_DOMAIN)
        self.words = ClassWords(self.targets, step=2 if self.has_spread else 1)
        self.names = names + self.words.names
        self.numbers = [True] * len(names) + [False] * len(self.words.names)
        if self.targets.kind == "multiclass" and self.targets.class_names:
            self.numbers[0] = False
        self.description = describe(self.targets)

    def _check(self, path: str, predictor: Predictor) -> None:
        """Raise ValueError if a model cannot predict molecules as the options ask."""
        if predictor.targets.level != "graph":
            raise ValueError(f"{path} predicts nodes, not molecules")
        if "pos" in predictor.model.batch_spec.fields:
            raise ValueError(f"{path} reads 3D positions, which SMILES do not have")
        try:
            parser_of(predictor.featuriser)
            if self.vectors:
                check_layers(predictor.model, self.vectors.layers)
                if self.vectors.fingerprint:
                    check_fingerprint(predictor.model, self.vectors.nodes)
            if self.mc_dropout:
                with dropout_switched_on(predictor.model):
                    pass
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def check_columns(self, table: Table) -> None:
        """Raise ValueError if a table lacks columns that the models need."""
        if lacking := [name for name in self.extra_columns if name not in table.header]:
            raise ValueError(
                f"{table.path}: no column {lacking[0]!r}; the model reads the columns "
                f"{', '.join(self.extra_columns)} beside the molecules"
            )

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(self.predictors[0].model.parameters()).device

    def arrays(self) -> dict[Path, tuple[Any, tuple[int, ...]]]:
        """Files of vectors, as `ResumableWriter` takes them."""
        if not self.vectors:
            return {}
        path = self.vectors.path
        result: dict[Path, tuple[Any, tuple[int, ...]]] = {
            path: (np.float32, (self._width(),))
        }
        if self.vectors.nodes:
            result[path.with_suffix(".count.npy")] = (np.int64, ())
        return result

    def __call__(self, block: Block, first: int) -> PredictedBlock:
        """Predict a block.

        Args:
            block: molecules.
            first: row of the input at which it starts.

        Raises:
            ValueError: not enough memory.
        """
        predicted: dict[int, list[str]] = {}
        rows = [] if block.chunk is None else block.chunk.row.tolist()
        arrays: list[np.ndarray] = []
        unlike: Counter[str] = Counter()
        try:
            if rows:
                with shared_features():
                    found = self._predict(block)
                for row, values in zip(rows, found):
                    if row in block.reasons:
                        continue
                    if np.isfinite(values).all():
                        predicted[row] = self.words(values)
                    else:
                        block.reasons[row] = "the prediction is not finite"
                if self.domains:
                    smiles = [block.smiles[row] for row in predicted]
                    scores = found[[row in predicted for row in rows], -1]
                    read = smiles_of(smiles, self.predictors[0].featuriser)
                    unlike = unlike_training(self.domains, read, scores)
            if self.vectors:
                arrays = self._embed(block)
        except (RuntimeError, MemoryError) as error:
            of_gpu = isinstance(error, torch.OutOfMemoryError)
            if not of_gpu and not is_out_of_memory(error):
                raise
            nodes = int(block.chunk.num_nodes.max())
            raise ValueError(
                f"rows {first} to {first + len(block.cells) - 1} do not fit into memory, "
                f"their largest molecule has {nodes:,} atoms; give a --batch-size below "
                f"{self.batch_size}, or leave out what is too large"
            ) from None
        empty = [""] * len(self.names)
        table = [
            [*cells, *predicted.get(row, empty), block.reasons.get(row, "")]
            for row, cells in enumerate(block.cells)
        ]
        failed = len(block.cells) - len(predicted)
        return PredictedBlock(table, arrays, failed, unlike)

    def _predict(self, block: Block) -> np.ndarray:
        """float64 [graphs, numbers], with domains the score of likeness last."""
        smiles = [block.smiles[row] for row in block.chunk.row]
        extra = block.extra[block.chunk.row]
        mean, std, in_domain = np.empty(0), None, None
        if self.domains or not self.mc_dropout:
            mean, std, in_domain = self.together.estimate(
                block.chunk, self.batch_size, smiles, extra
            )
        if self.mc_dropout:  # whose spread is not calibrated
            sequence = np.random.SeedSequence(self.seed)
            seeds = sequence.generate_state(len(self.predictors)).tolist()
            samples = np.concatenate(
                [
                    predictor.sample(smiles, self.mc_dropout, seed, extra)
                    for predictor, seed in zip(self.predictors, seeds, strict=True)
                ]
            )
            shares = self.together.weights
            if shares is not None:
                shares = np.repeat(shares, self.mc_dropout)
            mean, variance = mean_and_variance(samples, shares)
            std = np.sqrt(variance)
        if self.targets.kind == "multiclass":
            best = mean.argmax(1)[:, None]
            columns = [best, mean]
            if std is not None:  # of the probability of that class
                columns.insert(1, np.take_along_axis(std, best, 1))
        elif std is None:
            columns = [mean]
        else:
            columns = [np.stack([mean, std], 2).reshape(len(mean), -1)]
        if in_domain is not None:
            columns.append(in_domain[:, None])
        return np.concatenate(columns, 1)

    def _width(self) -> int:
        return self.vectors.layers * self.predictors[0].model.embed_dim

    def _embed(self, block: Block) -> list[np.ndarray]:
        """Rows for each file of `arrays`."""
        nodes, width = self.vectors.nodes, self._width()
        rows: np.ndarray = np.zeros(0, np.int64)
        found: list[np.ndarray] = []
        if block.chunk is not None:
            predicted = [row not in block.reasons for row in block.chunk.row.tolist()]
            rows = block.chunk.row[predicted]
            found = self.predictors[0].embed(
                block.chunk,
                self.vectors.layers,
                nodes,
                self.batch_size,
                self.vectors.fingerprint,
            )
            found = [vectors for vectors, use in zip(found, predicted) if use]
        if nodes:
            counts = np.zeros(len(block.cells), np.int64)
            counts[rows] = [len(vectors) for vectors in found]
            return [np.concatenate([np.empty((0, width)), *found]), counts]
        result = np.full((len(block.cells), width), np.nan, np.float32)
        if len(rows):
            result[rows] = found
        return [result]


def load_ensemble(
    names: Sequence[str],
    *,
    device: str | None = None,
    head: str | None = BESIDE,
    user_data_dir: str | None = None,
    bfloat16: bool = False,
    **options: Any,
) -> Ensemble:
    """The models that some names stand for, on their device.

    Args:
        names: see `models_named`.
        device: see `usable_device`.
        head: see `load`.
        user_data_dir: see `load`.
        bfloat16: see `Predictor.bfloat16`.
        **options: of `Ensemble`.

    Raises:
        OSError, ValueError: see `load`, `models_named`, `usable_device` and `Ensemble`.
    """
    where = usable_device(device)
    checkpoints, folder = models_named(names)
    members = [
        (str(path), load(path, user_data_dir, head).to(where)) for path in checkpoints
    ]
    if bfloat16:
        for _, member in members:
            member.bfloat16()
    scale = folder.scale(members[0][1].targets) if folder else None
    weights = folder.weights if folder else None
    return Ensemble(members, scale=scale, weights=weights, **options)


def models_named(names: Sequence[str]) -> tuple[list[Path], ModelFolder | None]:
    """Checkpoints that names stand for, also of models that come with the package, and the
    folder if they name one.

    Raises:
        OSError, ValueError: see `read_folder`; or a folder is not the only model.
    """
    paths = [Path(name) for name in names]
    if not any(path.is_dir() for path in paths):
        return [Path(checkpoint_path(name)) for name in names], None
    if len(paths) > 1:
        raise ValueError("a folder is an ensemble; name no other model beside it")
    folder = read_folder(paths[0])
    return folder.checkpoints, folder


def usable_device(name: str | None) -> torch.device:
    """The device of that name. Without a name: a GPU if there is one, else the CPU.

    Raises:
        ValueError: it cannot be used here.
    """
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # fails on meta, without values
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {name} cannot be used: {reason}") from None
    return device


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of new columns; a name that the input has already ends in _predicted."""
    result: list[str] = []
    for name in names:
        while name in taken or name in result:
            name += "_predicted"
        result.append(name)
    return result
