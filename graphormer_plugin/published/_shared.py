"""Shared by the importers: files of weights, weights taken by name, tables of columns."""

import importlib.util
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.errors import listed, named_damage
from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.graphs.smiles import feature_dims
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.checkpoint import read_file

COLUMN_STRIDE = 512  # rows per feature column in the released codes' tables


class Imported(NamedTuple):
    """A published model, described in this package's terms.

    Attributes:
        state: weights under this package's names.
        level: `graph`, or `node` for classes of nodes.
    """

    arch: str
    options: dict[str, Any]
    schema: FeatureSchema
    num_outputs: int
    state: dict[str, Tensor]
    level: Level = Level.GRAPH

    @property
    def targets(self) -> TargetSchema:
        """Targets without names, which no published file has."""
        return TargetSchema.of([f"output {index}" for index in range(self.num_outputs)])


def read_weights(path: PathName) -> dict[str, Tensor]:
    """Weights of a published checkpoint: the whole file, or its entry ``model`` (fairseq)
    or ``model_state`` (GraphGym); or of a file of safetensors, whichever its name."""
    with open(path, "rb") as file:
        is_safetensors = file.read(9)[8:] == b"{"  # after the length of its header
    if is_safetensors:
        if importlib.util.find_spec("safetensors") is None:
            raise ValueError(
                f"{path} needs safetensors: pip install 'graphormer-plugin[huggingface]'"
            )
        from safetensors.torch import load_file

        with named_damage(f"{path} is damaged"):
            return load_file(path)
    state = read_file(path)
    if isinstance(state, Mapping) and isinstance(state.get("model"), Mapping):
        if "schema" in (state.get("task_state") or {}):
            raise ValueError(f"{path} is a checkpoint of graphormer_plugin already")
        state = state["model"]
    if isinstance(state, Mapping):
        state = state.get("model_state", state)
    weights = state.values() if isinstance(state, Mapping) else []
    if not weights or not all(isinstance(weight, Tensor) for weight in weights):
        raise ValueError(
            f"{path} holds no weights, alone, under 'model' or under 'model_state'"
        )
    return dict(state)


class Weights:
    """Weights that an importer takes one by one from a published state dict, whose names lose
    ``prefix``, in float32 at least, because it adds some of them, and puts into `new` under
    this package's names; `finish` checks that none is left."""

    def __init__(self, state: Mapping[str, Tensor], prefix: str = "") -> None:
        self.state = {
            name.removeprefix(prefix): weight.to(
                torch.promote_types(weight.dtype, torch.float32)
            )
            for name, weight in state.items()
        }
        self.new: dict[str, Tensor] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.state

    def take(self, name: str) -> Tensor:
        """Remove and return a weight; ValueError if there is none."""
        if name not in self.state:
            raise ValueError(f"the checkpoint has no weight {name!r}")
        return self.state.pop(name)

    def count(self, name: str) -> int:
        """Number of weights whose number stands at ``{}`` in their name, from 0."""
        return next(n for n in itertools.count() if name.format(n) not in self)

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename matrices without a bias, from the published name."""
        for old, new in names.items():
            self.new[f"{new}.weight"] = self.take(f"{old}.weight")

    def move(self, old: str, new: str) -> None:
        """Rename the weight and the bias of a module; of a BatchNorm also its statistics."""
        kinds = ["weight", "bias"]
        if f"{old}.running_mean" in self:
            kinds += ["running_mean", "running_var"]
            self.drop(f"{old}.num_batches_tracked")
        for kind in kinds:
            self.new[f"{new}.{kind}"] = self.take(f"{old}.{kind}")

    def move_layers(self, names: Mapping[str, str], count: int) -> None:
        """Rename modules of ``count`` layers: from the published name, with ``{}`` in place of
        the number, to the name within the layer here; ``*`` stands for q, k and v, whose maps
        are joined."""
        for layer, (theirs, ours) in itertools.product(range(count), names.items()):
            old = theirs.format(layer)
            new = f"encoder.layers.{layer}.{ours}"
            if "*" not in old:
                self.move(old, new)
                continue
            for kind in ("weight", "bias"):
                parts = [self.take(f"{old.replace('*', p)}.{kind}") for p in "qkv"]
                self.new[f"{new}.{kind}"] = torch.cat(parts)

    def drop(self, *names: str) -> None:
        """Leave out weights that the released code never uses."""
        for name in names:
            self.state.pop(name, None)

    def finish(self) -> None:
        """Raise ValueError if a weight was not taken."""
        if self.state:
            raise ValueError(
                f"{len(self.state)} weights of the checkpoint are unknown: "
                f"{listed(sorted(self.state), 5)}"
            )


def molecule_schema(config: Mapping[str, Any]) -> FeatureSchema:
    """Vocabularies of OGB's molecules, unless the config has others."""
    node_dims, bond_dims = feature_dims()
    node_dims = list(config.get("node_dims", node_dims))
    return FeatureSchema(
        len(node_dims), node_dims, list(config.get("bond_dims", bond_dims))
    )


def require(config: Mapping[str, Any], system: str, **examples: Any) -> None:
    """Raise ValueError where a config lacks an option that weights of the published code,
    ``system``, do not show; the message has an example of its value, as JSON."""
    for name, example in examples.items():
        if name not in config:
            raise ValueError(
                f"the weights of {system} do not show {name}: give --config with "
                f'{{"{name}": {example}, ...}}'
            )


def columns_of(table: Tensor, first: int, columns: int) -> Tensor:
    """Rows of ``columns`` feature columns, from row ``first`` on."""
    rows = COLUMN_STRIDE * columns
    if len(table) < rows:
        raise ValueError(
            f"a table has {len(table)} rows, {columns} feature columns need {rows}"
        )
    wanted = table[first : first + rows]
    # The highest values of the last column may lie beyond the released table.
    missing = table.new_zeros(rows - len(wanted), table.shape[1])
    return torch.cat([wanted, missing])


def check_config(config: Mapping[str, Any], read: Mapping[str, Any]) -> None:
    """Raise ValueError where a config contradicts what was read from the weights."""
    for name, value in read.items():
        if config.get(name, value) != value:
            raise ValueError(
                f"the config says {name} {config[name]}, the weights have {value}"
            )


def dropout_rates(config: Mapping[str, Any]) -> dict[str, float]:
    """The dropout rates that a config has."""
    names = ("dropout", "attention_dropout", "act_dropout")
    return {name: float(config[name]) for name in names if name in config}
