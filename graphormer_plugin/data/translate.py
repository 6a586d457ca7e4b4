"""Data in the vocabulary of a checkpoint that was trained on other data."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cython_ext import bond_dtype, edge_order
from graphormer_plugin.data.columns import ShardColumns
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.store_shards import StoreShards

logger = logging.getLogger(__name__)


def translate_stores(
    store: GraphStore | StoreShards,
    schema: FeatureSchema,
    targets: TargetSchema,
    name: str,
) -> tuple[dict[str, NDArray] | ShardColumns, NDArray | None]:
    """Columns and targets of a dataset in the vocabulary of a checkpoint.

    Args:
        store: The data; the targets of several stores are among their columns.
        schema: See `translate_columns`.
        targets: See `translate_target`.
        name: Of the dataset, for messages.

    Raises:
        ValueError: See `translate_columns` and `translate_target`.
    """
    unit = store.targets.unit
    if unit and targets.unit and unit != targets.unit:
        logger.warning(
            "%s has targets in %s; the checkpoint predicts %s", name, unit, targets.unit
        )
    shards = []
    for one in store.stores:
        columns = translate_columns(one, schema, name)
        target = translate_target(one, targets, name)
        shards.append(columns | {"target": target})
    if isinstance(store, StoreShards):
        return ShardColumns(shards, store.first), None
    return columns, target


def translate_columns(
    store: GraphStore, schema: FeatureSchema, name: str
) -> dict[str, NDArray]:
    """Columns of a store with the bond types of another schema.

    Args:
        store: The data.
        schema: Vocabularies of nodes and bonds that the checkpoint was trained on.
        name: Of the dataset, for messages.

    Raises:
        ValueError: The node columns or bond columns differ, or those that join the
            output layer.
    """
    columns, found = dict(store.columns), store.schema
    if schema.graph_features != found.graph_features:
        raise ValueError(
            f"{name} has {_listed(found.graph_features)} for the output layer, the "
            f"checkpoint was trained on {_listed(schema.graph_features)}; see "
            "--extra-columns and --descriptors"
        )
    if schema.graph_features:
        columns["graph_features"] = schema.scale_graph_features(
            columns["graph_features"]
        )
    if schema.unscaled() == found.unscaled():
        return columns
    if (schema.num_node_features, schema.node_dims) != (
        found.num_node_features,
        found.node_dims,
    ):
        raise ValueError(
            f"{name} has node columns {found.node_dims}, the checkpoint was trained on "
            f"{schema.node_dims}"
        )
    if schema.num_edge_features != found.num_edge_features:
        raise ValueError(
            f"{name} has {found.num_edge_features} real features of edges, the "
            f"checkpoint was trained on {schema.num_edge_features}"
        )
    return columns | translate_bonds(columns, found, schema)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + ", ..." * (len(names) > 3) or "no columns"


def translate_target(store: GraphStore, targets: TargetSchema, name: str) -> NDArray:
    """Targets of a store in the order of another schema.

    Args:
        store: The data.
        targets: What the checkpoint predicts.
        name: Of the dataset, for messages.

    Returns:
        Labels [G, C], or [sum N] of nodes.

    Raises:
        ValueError: The store lacks a target, its targets are of another kind or level, or
            it has a class that the checkpoint does not predict.
    """
    if store.target is None:
        raise ValueError(f"{name} has no targets")
    found = store.targets
    for there, here in [(found.kind, targets.kind), (found.level, targets.level)]:
        if there != here:
            raise ValueError(
                f"{name} has {there} targets; the checkpoint predicts {here} targets"
            )
    if set(targets.names) - set(found.names):
        raise ValueError(
            f"{name} has targets {', '.join(found.names)}; the checkpoint predicts "
            f"{', '.join(targets.names)}"
        )
    columns = [found.names.index(target) for target in targets.names]
    wanted = [targets.classes_of(number) for number in range(len(targets.names))]
    given = [found.classes_of(column) for column in columns]
    values = store.target
    if targets.names != found.names:
        values = values[:, columns]
    if wanted != given:  # a copy; small integers of nodes may not hold all classes
        values = np.array(values, np.int64 if values.dtype.kind == "i" else None)
    for number, (classes, words) in enumerate(zip(wanted, given, strict=True)):
        labels = values if values.ndim == 1 else values[:, number]
        if classes and words:
            if classes != words:
                unknown = sorted({*words} - {*classes})
                if unknown:
                    raise ValueError(
                        f"{name} has class {unknown[0]!r} of {targets.names[number]}; "
                        f"the checkpoint predicts {', '.join(classes)}"
                    )
                place = np.array([classes.index(word) for word in words])
                labelled = labels >= 0  # NaN and -1 are missing
                labels[labelled] = place[labels[labelled].astype(int)]
        elif found.num_classes > targets.num_classes:  # numbers mean the same
            largest = np.max(labels, initial=-1, where=labels >= 0)
            if largest >= targets.num_classes:
                raise ValueError(
                    f"{name} has class {int(largest)} of {targets.names[number]}; the "
                    f"checkpoint predicts 0..{targets.num_classes - 1}"
                )
    return values


def translated_labels(
    store: GraphStore | StoreShards, targets: TargetSchema, name: str, split: str
) -> NDArray:
    """Labels [n, C] of the graphs of a split, translated by `translate_target`."""
    found = [translate_target(one, targets, name) for one in store.stores]
    if isinstance(store, StoreShards):
        offsets = [one.columns["node_offset"] for one in store.stores]
        shards = [
            {"node_offset": offset, "target": target}
            for offset, target in zip(offsets, found, strict=True)
        ]
        columns = ShardColumns(shards, store.first)
        return columns.of_graphs(store.splits[split])["target"]
    return np.asarray(found[0][store.splits[split]])


def translate_bonds(
    columns: Mapping[str, NDArray], source: FeatureSchema, target: FeatureSchema
) -> dict[str, NDArray]:
    """Edge columns of a store with the bond types of another schema.

    The bond types of a table are numbers in their dataset only, so the bond columns
    behind them are compared. What the target's table does not have becomes UNKNOWN.

    Returns:
        ``edge_src``, ``edge_dst`` and ``edge_bond``, sorted as in a store.

    Raises:
        ValueError: The schemas have other bond columns.
    """
    if source.bond_dims != target.bond_dims and (
        source.bond_table is None or target.bond_table is None
    ):
        raise ValueError(
            f"the data have bond columns {source.bond_dims}, the checkpoint was "
            f"trained on {target.bond_dims}"
        )
    rows = source.bond_columns()
    known = (rows >= 0).all(axis=1)
    known[0] = False
    types = np.full(len(rows), target.num_bond_types, dtype=np.int64)
    types[known] = target.bond_types(rows[known])
    bond = types[columns["edge_bond"]].astype(bond_dtype(target.num_bond_types))
    src, dst = columns["edge_src"], columns["edge_dst"]
    order = edge_order(np.diff(columns["edge_offset"]), src, dst, bond)
    return {"edge_src": src[order], "edge_dst": dst[order], "edge_bond": bond[order]}
