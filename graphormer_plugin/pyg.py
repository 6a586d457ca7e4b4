"""From graphs of PyTorch Geometric to a model and its batches, in memory and in Python.

>>> from torch_geometric.datasets import FakeDataset  # or ZINC, TUDataset, ...
>>> from graphormer_plugin.pyg import GraphLoss, build_model, graph_loader
>>> graphs = FakeDataset(64, avg_num_nodes=20, edge_dim=0, task="graph")
>>> model = build_model("grpe_tiny", graphs, kind="multiclass")
>>> loss_of = GraphLoss(model.targets)
>>> for batch, target in graph_loader(graphs, model, batch_size=16, shuffle=True):
...     loss_of(model(batch), target).backward()
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from graphormer_plugin import models
from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.criterions.losses import (
    VALUE_LOSSES,
    label_losses,
    present_labels,
)
from graphormer_plugin.data.batches.buckets import bucketed_order, cut_batches
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields.degrees import sum_of_logs
from graphormer_plugin.data.batches.negatives import negatives_of
from graphormer_plugin.data.columns import Level, learned_level, offsets_of
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.chunk import NODE_SPLITS, GraphChunk
from graphormer_plugin.data.graphs.pyg_graphs import (
    chunks_of_graphs,
    edge_kind_of,
    label_of,
)
from graphormer_plugin.data.store.ranges import BondColumns, Column
from graphormer_plugin.data.tables.labels import (
    default_names,
    describe_targets,
    stored_labels,
)
from graphormer_plugin.data.targets import (
    DEFAULT_KINDS,
    TargetSchema,
    target_kind,
)
from graphormer_plugin.inference.graphs import Batch, ModelGraphs


def build_model(
    arch: str,
    graphs: Sequence[Any],
    *,
    level: str = "graph",
    kind: str = "",
    num_classes: int = 0,
    node_dims: list[int] | None = None,
    bond_dims: list[int] | None = None,
    edge_kind: str = "",
    **options: Any,
) -> models.GraphModel:
    """A model with random weights for the features and labels of some graphs.

    Args:
        arch: name for `--arch`, e.g. `grpe_small`.
        graphs: the training graphs, a list or an `InMemoryDataset` of `Data`; see
            `data.graphs.pyg_graphs.chunks_of_graphs`. Vocabularies, and in regression mean and
            deviation of the labels, are theirs.
        level: `graph`, `node` or `edge`: what `y` labels; or `link`, whose labels are
            `edge_label` of `edge_label_index`.
        kind: kind of the labels, `regression`, `binary` or `multiclass`; empty: see
            `DEFAULT_KINDS`.
        num_classes: number of multiclass labels; 0: the largest label + 1.
        node_dims: number of values of each column of integers in `x`; None: the largest
            value + 1.
        bond_dims: the same for `edge_attr`.
        edge_kind: `category` or `real`: what `edge_attr` is; empty: floats are real features,
            integers are categories.
        **options: options of the architecture that differ from its preset; `**vars(config)` gives
            a config's options.

    Returns:
        the model, whose `targets` and `schema` describe labels and features.

    Raises:
        ValueError: a wrong graph, label or option.
    """
    label_level = learned_level(level)
    label_kind = target_kind(kind) if kind else DEFAULT_KINDS[label_level]
    chunk = _chunk(graphs, label_level, label_kind.has_one_output, edge_kind)
    real = chunk.edge_attr is not None and chunk.edge_attr.dtype.kind == "f"
    bonds = BondColumns(bond_dims)
    bonds.add(None if real else chunk.edge_attr, int(chunk.num_edges.sum()))
    x = Column("x", node_dims)
    x.measure(chunk.x)
    width = chunk.edge_attr.shape[1] if real else 0
    schema = bonds.schema(chunk.x.shape[1], x.vocabularies(), width)
    labels = chunk.target
    counts = {Level.NODE: chunk.num_nodes, Level.EDGE: chunk.num_edges}
    if chunk.num_links is not None:
        counts[Level.LINK] = chunk.num_links
    columns = {part.offset: offsets_of(n) for part, n in counts.items()}
    columns["edge_dst"] = chunk.edge_index[1]
    names = default_names(labels.shape[1])
    unmeasured = TargetSchema.of(names, "", label_kind, label_level, num_classes)
    offset = columns[label_level.counted_by]
    targets, _ = describe_targets(labels, unmeasured, offset, {}, chunk.node_split)
    total, count = sum_of_logs(columns, np.arange(len(chunk)))
    return models.build_model(arch, schema, targets, total / count, **options)


def graph_loader(
    graphs: Sequence[Any],
    model: models.GraphModel,
    split: str = "",
    *,
    by_size: bool = False,
    max_pairs: int | None = None,
    negatives: int | None = None,
    seed: int = 1,
    **options: Any,
) -> DataLoader:
    """A loader of graphs in batches of the fields that a model reads.

    Args:
        graphs: a list or an `InMemoryDataset` of `Data`; if none of them has labels, all
            are missing.
        model: made by `build_model`, or read from a checkpoint (`hub.load(path).model`).
        split: `train`, `valid` or `test`: labels of nodes outside its mask are missing
            (`train_mask`, `val_mask`, `test_mask` of `Data`); empty: none are.
        by_size: graphs of about equal size are in a batch, which saves padding; see
            `BatchesBySize`.
        max_pairs: with `by_size`, largest number of padded pairs of nodes of a batch.
        negatives: pairs of label 0 for each pair of label 1 of a graph; those that the data
            lack are drawn (`Negatives`), behind its own, and anew in each pass over the data
            if its order is. None: 1; 0: none are drawn.
        seed: seed of the order with `by_size`, and of negatives.
        **options: options of torch's `DataLoader`, e.g. `batch_size`, `shuffle`, `num_workers`.

    Returns:
        a `DataLoader` that yields pairs: the fields of a batch by name, which the model
        takes, and the labels. These are float64 [B, C], NaN where missing; of nodes, edges or
        pairs int64 classes [B, N], -1 where missing or padding, or float64 [B, N, C], NaN
        there, of a single target [B, N].

    Raises:
        ValueError: a graph or label that does not fit the model.
    """
    check_least("negatives", negatives, 0)
    prepared = _prepared(graphs, model, split)
    drawn = negatives_of(model.targets, negatives, seed)
    prepared.collator.negatives = drawn
    anew = options.get("shuffle") or options.keys() & {"sampler", "batch_sampler"}
    if by_size:
        options["batch_sampler"] = BatchesBySize(
            prepared.sizes,
            options.pop("batch_size", None),
            shuffle=options.pop("shuffle", False),
            max_pairs=max_pairs,
            seed=seed,
        )
    collate = functools.partial(_collated, prepared.collator, split)
    loader = DataLoader(range(len(prepared.sizes)), collate_fn=collate, **options)
    if not drawn:
        return loader
    for name in ("batch_size", "shuffle", "sampler", "drop_last"):
        options.pop(name, None)
    options["batch_sampler"] = NumberedPasses(loader.batch_sampler, bool(anew))
    collate = functools.partial(_collated_pass, prepared.collator, split)
    return DataLoader(Itself(), collate_fn=collate, **options)


class NumberedPasses(Sampler[list[tuple[int, int]]]):
    """Batches of (pass, graph): a data worker lives through all passes and counts none.

    Args:
        anew: passes count from 1; without it all are 0.
    """

    def __init__(self, batches: Sampler[list[int]], anew: bool) -> None:
        self.batches = batches
        self.anew = anew
        self.number = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        self.number += self.anew
        numbers = itertools.repeat(self.number)
        # A loader of workers makes two iterators of a pass, of which it reads one.
        yield from (list(zip(numbers, batch)) for batch in self.batches)


class Itself:
    """A dataset whose items are what they are asked by."""

    def __getitem__(self, item: Any) -> Any:
        return item


class BatchesBySize(Sampler[list[int]]):
    """Batches of graphs of about equal size, as `fairseq-train` has them.

    Shuffled, each pass has another order: graphs are shuffled within buckets of sizes, and
    then the batches.

    Args:
        sizes: nodes of each graph.
        batch_size: graphs of a batch; None: as many as `max_pairs` allows.
        shuffle: a new order in each pass; without it the smallest graphs come first.
        max_pairs: padded pairs of nodes of a batch.
    """

    def __init__(
        self,
        sizes: np.ndarray,
        batch_size: int | None,
        *,
        shuffle: bool = False,
        max_pairs: int | None = None,
        seed: int = 1,
    ) -> None:
        if not (batch_size or max_pairs):
            raise ValueError("batches by size need a batch_size or max_pairs")
        self.sizes = sizes
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.limits = {"max_graphs": batch_size, "max_pairs": max_pairs}

    def _batches(self) -> list[np.ndarray]:
        order = np.argsort(self.sizes, kind="stable")
        if self.shuffle:
            order = bucketed_order(self.sizes, self.seed, self.epoch)
        return cut_batches(order, self.sizes, **self.limits)

    def __len__(self) -> int:
        return len(self._batches())

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._batches()
        if self.shuffle:
            np.random.default_rng([self.seed, self.epoch, 1]).shuffle(batches)
            self.epoch += 1
        yield from (batch.tolist() for batch in batches)


def _prepared(
    graphs: Sequence[Any], model: models.GraphModel, split: str
) -> ModelGraphs:
    """Graphs with the fields that a model reads, and their labels; see `graph_loader`."""
    if split:
        check_choice("split", split, list(NODE_SPLITS))
    targets = model.targets
    if model.schema.graph_features:
        names = ", ".join(model.schema.graph_features[:3])
        raise ValueError(f"the model reads {names}, which `Data` cannot give")
    if hasattr(graphs, "to_data_list"):  # a Batch
        graphs = graphs.to_data_list()
    label = label_of(targets.level)
    labelled = any(getattr(graph, label, None) is not None for graph in graphs)
    values = targets.kind.has_one_output
    edge_kind = edge_kind_of(model.schema)
    chunk = _chunk(graphs, targets.level, values, edge_kind, labelled)
    if split and chunk.node_split is None:
        raise ValueError(f"split {split!r}, but the graphs have no train_mask")
    prepared = ModelGraphs(model, model.schema, chunk)
    if chunk.target is None:
        rows = len(prepared.target)
        prepared.target = np.full((rows, len(targets.names)), np.nan)
        return prepared
    width = chunk.target.shape[1]
    if width != len(targets.names):
        raise ValueError(
            f"{label} has {width} numbers per {targets.level}, the model has targets "
            f"{', '.join(targets.names)}"
        )
    targets.check(chunk.target)
    prepared.target = chunk.target
    return prepared


def _collated(
    collator: GraphCollator, split: str, numbers: Sequence[int], epoch: int = 0
) -> tuple[Batch, Tensor]:
    """Fields and labels of some graphs; a single target of nodes, edges or pairs has no
    dimension."""
    sample = collator(np.array(numbers), split, epoch)
    target = sample["target"]
    if collator.level is not Level.GRAPH:
        target = target.squeeze(-1)
    return sample["net_input"]["batch"], target


def _collated_pass(
    collator: GraphCollator, split: str, items: list[tuple[int, int]]
) -> tuple[Batch, Tensor]:
    """`_collated` of a batch of `NumberedPasses`."""
    epochs, numbers = zip(*items)
    return _collated(collator, split, numbers, epochs[0])


def _chunk(
    graphs: Sequence[Any],
    level: Level,
    values: bool,
    edge_kind: str,
    labelled: bool = True,
) -> GraphChunk:
    """All graphs, checked; labels of graphs as a store has them."""
    chunks = chunks_of_graphs(
        graphs,
        level=level,
        values=values,
        with_target=labelled,
        masks=True,
        edge_kind=edge_kind,
        progress=False,
    )
    parts = list(chunks)
    if not parts:
        raise DatasetError("there are no graphs")
    chunk = GraphChunk.joined(parts)
    if chunk.target is not None and level is Level.GRAPH:
        chunk.target = stored_labels(chunk.target)
    return chunk


class GraphLoss(nn.Module):
    """Mean loss of the labels of a batch that are not missing, 0 without any.

    Cross-entropy of classes and of binary labels; in regression a loss of values that are
    standardised as the training labels, as `--criterion` has it.

    Args:
        targets: the model's targets.
        regression: `l1` or `mse`.
    """

    def __init__(self, targets: TargetSchema, regression: str = "l1") -> None:
        super().__init__()
        check_choice("regression loss", regression, list(VALUE_LOSSES))
        self.targets = targets
        self.regression = regression

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """Output of the model [B, C] or [B, N, C], and labels of `graph_loader`."""
        output = output.float()
        values = self.targets.kind.has_one_output
        shape = output.shape if values else output.shape[:-1]
        labels, present = present_labels(target.view(shape))
        losses = label_losses(output, labels, self.targets, self.regression)
        return losses.where(present, 0).sum() / present.sum().clamp(min=1)
