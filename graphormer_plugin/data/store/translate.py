"""Data in the vocabulary of a checkpoint that was trained on other data."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cython_ext import bond_dtype, edge_order
from graphormer_plugin.data.columns import Columns
from graphormer_plugin.data.graphs.graph_columns import ShardColumns
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.store.sharded_store import ShardedStore, Stores
from graphormer_plugin.data.targets import TargetSchema

logger = logging.getLogger(__name__)


def translate_stores(
    store: Stores,
    schema: FeatureSchema,
    targets: TargetSchema,
    name: str,
) -> tuple[Columns | ShardColumns, NDArray | None]:
    """Columns and targets of a dataset, called ``name`` in messages, in the ``schema`` and with
    the ``targets`` of a checkpoint. The targets of several stores are among their columns.
    """
    unit = store.targets.unit
    if unit and targets.unit and unit != targets.unit:
        logger.warning(
            "%s has targets in %s; the checkpoint predicts %s", name, unit, targets.unit
        )
    shards = []
    for part in store.stores:
        columns = translate_columns(part, schema, name)
        target = translate_target(part, targets, name)
        shards.append(columns | {"target": target})
    if isinstance(store, ShardedStore):
        return ShardColumns(shards, store.first, store.targets.level), None
    return columns, target


def _require_same(name: str, what: str, of_data: Any, trained: Any) -> None:
    """Raises ValueError if data are not like the data that a checkpoint knows."""
    if of_data != trained:
        raise ValueError(
            f"{name} has {what} {of_data or 'none'}, the checkpoint was trained on "
            f"{trained or 'none'}"
        )


def translate_columns(store: GraphStore, schema: FeatureSchema, name: str) -> Columns:
    """Columns of a store with the bond types of another schema, see `translate_stores`."""
    columns = {**store.columns, "x": schema.as_trained(store.columns["x"])}
    schema_of_data = store.schema
    joined = (schema_of_data.graph_features, schema.graph_features)
    _require_same(name, "--extra-columns and --descriptors", *joined)
    if schema.graph_features:
        columns["graph_features"] = schema.scale_graph_features(
            columns["graph_features"]
        )
    if schema.unscaled() == schema_of_data.unscaled():
        return columns
    for what in ("node_dims", "num_node_features", "num_edge_features"):
        _require_same(name, what, getattr(schema_of_data, what), getattr(schema, what))
    return columns | translate_bonds(columns, schema_of_data, schema)


def translate_target(store: GraphStore, targets: TargetSchema, name: str) -> NDArray:
    """Labels [rows of their level, C] of a store in the order of another schema."""
    of_data = store.targets
    if {*targets.names} - {*of_data.names}:
        raise ValueError(
            f"{name} has targets {', '.join(of_data.names)}; the checkpoint predicts "
            f"{', '.join(targets.names)}"
        )
    _require_same(name, "kind of targets", of_data.kind, targets.kind)
    _require_same(name, "level of targets", of_data.level, targets.level)
    order = [of_data.names.index(target) for target in targets.names]
    values = store.target
    if targets.names != of_data.names:
        values = values[:, order]
    wanted = [target.classes for target in targets.targets]
    named = [target.classes for target in of_data.select(order).targets]
    if wanted != named:  # a copy; small integers of nodes may not hold all classes
        values = np.array(values, np.int64 if values.dtype.kind == "i" else None)
    for column, classes, words in zip(values.T, wanted, named, strict=True):
        if classes and words and classes != words:
            unknown = sorted({*words} - {*classes})
            if unknown:
                raise ValueError(
                    f"{name} has class {unknown[0]!r} of {', '.join(targets.names)}; the "
                    f"checkpoint predicts {', '.join(classes)}"
                )
            place = np.array([classes.index(word) for word in words])
            labelled = column >= 0  # NaN and -1 are missing
            column[labelled] = place[column[labelled].astype(int)]
    if of_data.num_classes > targets.num_classes:
        try:
            targets.check(values)  # numbers mean the same
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return values


def translated_labels(
    store: Stores, targets: TargetSchema, name: str, split: str
) -> NDArray:
    """Labels [n, C] of a split, store after store, translated by `translate_target`."""
    labels = []
    for part in store.stores:
        rows = part.label_rows(part.graphs_in(split), split)
        labels.append(translate_target(part, targets, name)[rows])
    return np.concatenate(labels)


def translate_bonds(
    columns: Columns, source: FeatureSchema, target: FeatureSchema
) -> Columns:
    """Edge columns of a store with the bond types of another schema.

    The bond types of a table are numbers in their dataset only, so the bond columns
    behind them are compared. Bond types that the target's table lacks become UNKNOWN. The
    edges are sorted as in a store.
    """
    if source.bond_table is None or target.bond_table is None:
        dims = (source.bond_dims, target.bond_dims)
        _require_same("the dataset", "bond columns", *dims)
    rows = source.bond_columns()
    has_columns = (rows >= 0).all(axis=1)
    has_columns[0] = False
    types = np.full(len(rows), target.num_bond_types, dtype=np.int64)
    types[has_columns] = target.bond_types(rows[has_columns])
    bond = types[columns["edge_bond"]].astype(bond_dtype(target.num_bond_types))
    src = columns["edge_src"]
    dst = columns["edge_dst"]
    order = edge_order(np.diff(columns["edge_offset"]), src, dst, bond)
    return {"edge_src": src[order], "edge_dst": dst[order], "edge_bond": bond[order]}
