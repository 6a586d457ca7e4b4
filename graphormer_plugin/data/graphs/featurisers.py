"""Featurisers: how a source becomes a graph. Checkpoints and stores carry their names."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from graphormer_plugin.choices import UnknownNameError
from graphormer_plugin.components import is_same_definition, matching
from graphormer_plugin.data.graphs.chunk import Dims, MoleculeGraph
from graphormer_plugin.data.graphs.conformers import (
    NUM_ELEMENTS,
    NUM_TAGS,
    nearest_distance,
    symbol_of,
)
from graphormer_plugin.data.graphs.smiles import (
    PLACED,
    PLAIN,
    OGBFeaturiser,
    molecule_key,
)
from graphormer_plugin.data.graphs.sources import Atoms, Source


class Featuriser(Protocol):
    """Reads graphs from sources, in one vocabulary. Equal featurisers read equal graphs."""

    @property
    def name(self) -> str:
        """Name of the registered featuriser."""

    @property
    def reads(self) -> type:
        """Type of its sources, one of `FORMATS`; by default SMILES."""
        return str

    @property
    def dims(self) -> Dims | None:
        """Number of values of each node and bond column; None if they are not known."""

    def read(self, source: Any) -> MoleculeGraph:
        """The graph of a source; ValueError if it is refused. ``extras["mol"]`` may have RDKit's
        molecule, whose atoms are the nodes."""

    def mols(self, source: Any) -> list[Any]:
        """RDKit's molecules of a source, atoms in the order of the nodes."""

    def select_fragment(self, mol: Any) -> Any:
        """The part of a molecule that becomes a graph, atoms in their order, perhaps without
        stereo marks; by default all."""
        return mol

    def category(self, column: int, value: int) -> str:
        """Name of a category of a column of nodes."""
        return f"{value} in column {column}"

    def without_canonical_order(self) -> "Featuriser":
        """Its form without canonical order: nodes have the order of the text."""
        return self

    def with_all_fragments(self) -> "Featuriser":
        """Its form that keeps all fragments and stereo marks."""
        return self


@dataclass(frozen=True)
class GraphsOnly(Featuriser):
    """Stands for graphs of a source without texts. Texts that come with such graphs say which
    molecules they are."""

    name: str = ""
    reads: type = MoleculeGraph
    dims: Dims | None = None

    @property
    def read(self) -> Any:
        """Raise ValueError: a model of such graphs reads no text."""
        raise ValueError(
            "the checkpoint does not say how SMILES become the graphs that the model "
            "was trained on; give graphs with the same features"
        )

    def mols(self, source: Any) -> list[Any]:
        """See `Featuriser`."""
        return PLAIN.mols(source)


@dataclass(frozen=True)
class AtomsFeaturiser(Featuriser):
    """The `Featuriser` of `Atoms`, without bonds. Nodes have an atomic number
    and a tag."""

    name: str = "atoms"
    reads: type = Atoms

    @property
    def dims(self) -> Dims:
        """See `Featuriser`."""
        return [NUM_ELEMENTS, NUM_TAGS], []

    def read(self, source: Source) -> MoleculeGraph:
        """See `Featuriser`."""
        if not isinstance(source, Atoms):
            raise ValueError("it is not atoms with positions, which the model reads")
        nearest = nearest_distance(source.x[:, 0], source.pos)
        return MoleculeGraph(
            source.x,
            np.zeros((2, 0), np.int64),
            np.zeros((0, 0), np.int64),
            {"nearest": nearest},
            source.pos,
            source.forces,
        )

    def category(self, column: int, value: int) -> str:
        """See `Featuriser`."""
        return f"tag {value}" if column else symbol_of(value)

    def read_row(self, source: Source) -> MoleculeGraph:
        """The graph, and as its ``molecule`` the key of its atoms and positions."""
        graph = self.read(source)
        key = molecule_key(source.text)
        return graph._replace(extras=graph.extras | {"molecule": key})

    def mols(self, source: Source) -> list[Any]:
        """See `Featuriser`."""
        raise ValueError("atoms without bonds are no molecule of RDKit")


_FEATURISERS: dict[str, Featuriser] = {}


def register_featuriser(featuriser: Featuriser) -> None:
    """Make a featuriser known by its name; ValueError if one of another class has it. A class
    of the same name and module, such as a notebook's cell that is run again, replaces it.
    """
    earlier = _FEATURISERS.get(featuriser.name, featuriser)
    if not is_same_definition(type(earlier), type(featuriser)):
        raise ValueError(f"featuriser {featuriser.name!r} is registered already")
    _FEATURISERS[featuriser.name] = featuriser


def featuriser_named(name: str) -> Featuriser:
    """The featuriser of a name, `GraphsOnly` of the empty name; ValueError if none has it."""
    if not name:
        return GraphsOnly()
    if name not in _FEATURISERS:
        raise UnknownNameError("featuriser", name, _FEATURISERS)
    return _FEATURISERS[name]


def vocabulary_of(featuriser: Featuriser) -> dict[str, Any]:
    """What a `DatasetSource` says of the graphs of a featuriser."""
    node_dims, bond_dims = featuriser.dims
    return dict(node_dims=node_dims, bond_dims=bond_dims, featuriser=featuriser.name)


def list_featurisers(*patterns: str) -> list[str]:
    """Names of featurisers that match one of some patterns; all without."""
    return matching(_FEATURISERS, patterns)


for _canonical in (False, True):
    for _largest in (False, True):
        for _positions in ("none", "rdkit"):
            for _flat in (False, True):
                how = _canonical, _largest, _positions, _flat
                register_featuriser(OGBFeaturiser(*how))
register_featuriser(PLACED)
register_featuriser(AtomsFeaturiser())
