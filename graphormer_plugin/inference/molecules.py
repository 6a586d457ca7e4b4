"""Molecules and graphs that are read once, for all models and kernels that need them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.graphs.chunk import GraphChunk, MoleculeGraph
from graphormer_plugin.data.graphs.descriptors import rdkit_descriptors
from graphormer_plugin.data.graphs.featurisers import Featuriser
from graphormer_plugin.data.graphs.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.graphs.smiles import (
    HEAVY_HYDROGEN,
    captured_rdkit_log,
    from_canonical,
    mol_of_any_smiles,
    without_hydrogens,
)
from graphormer_plugin.data.graphs.sources import (
    Atoms,
    InputKind,
    MolBlock,
    Source,
    input_kind,
)
from graphormer_plugin.data.store.featurise import (
    RowReader,
    joined_graphs,
    parse,
    read_sources,
)
from graphormer_plugin.estimators.kernels import as_mol, molecule_features, rounded


@dataclass
class Molecules:
    """Molecules and graphs that were read.

    Attributes:
        sources: SMILES, RDKit molecule or graph with an attribute ``smiles`` of each.
        parsed: RDKit's molecule of each graph, whose atoms are the nodes in their order;
            None where it did not come along. Instead of the list None: none is kept, what
            needs them reads one after another.
        nearest: `nearest_distance` of each graph with positions that `read_rows` has read.
    """

    chunk: GraphChunk | None
    sources: Sequence[Any]
    featuriser: Featuriser
    parsed: Sequence[Chem.Mol | None] | None = ()
    nearest: Sequence[float] = ()
    _features: dict[str, NDArray] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return 0 if self.chunk is None else len(self.chunk)

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads a molecule again if it needs one.
        return {**self.__dict__, "parsed": ()}

    @property
    def is_canonical(self) -> bool:
        """Whether nodes have an order of their own, see `from_canonical`."""
        return self.featuriser.without_canonical_order() != self.featuriser

    @property
    def is_partial(self) -> bool:
        """Whether graphs may lack fragments of their molecules."""
        return self.featuriser.with_all_fragments() != self.featuriser

    @cached_property
    def descriptor_mols(self) -> list[str | Chem.Mol]:
        """Molecules for descriptors, fingerprints and domains, without hydrogens as atoms; their
        SMILES if none is kept.

        The largest fragment is read again from its own SMILES, as in training: the last
        bits of a descriptor depend on the order of the atoms.
        """
        if self.parsed is None:
            return self.texts
        parsed = self.parsed
        read_again = self.is_partial and not self.is_canonical
        read_again |= self.featuriser.reads is MolBlock
        if read_again or not parsed:
            parsed = [None] * len(self)
        if None not in parsed:
            return list(parsed)
        return [
            mol or mol_of_any_smiles(text)
            for mol, text in zip(parsed, self.texts, strict=True)
        ]

    @cached_property
    def descriptors(self) -> NDArray:
        """`rdkit_descriptors` of `descriptor_mols`."""
        return rdkit_descriptors(self.descriptor_mols, as_mol)

    @property
    def texts(self) -> list[str]:
        """SMILES of the molecules that the graphs show."""
        is_parsed = self.parsed and None not in self.parsed
        if is_parsed and self.is_partial:
            return [Chem.MolToSmiles(mol) for mol in self.parsed]
        return smiles_of(self.sources, self.featuriser)

    def mol(self, number: int) -> Chem.Mol:
        """The molecule of a graph, its atoms in the order of the source."""
        mol = self.sources[number]
        if isinstance(mol, str | MolBlock):
            return _mol_as_written(mol, self.featuriser)
        return self.featuriser.select_fragment(without_hydrogens(mol))

    def to_source_order(
        self, of_nodes: Sequence[NDArray], axes: Sequence[int], first: int = 0
    ):
        """Arrays whose ``axes`` are the nodes of each graph, from ``first`` on, in the
        order of the atoms of the source; see `from_canonical`."""
        if not self.is_canonical:
            return of_nodes
        results = []
        for index, values in enumerate(of_nodes):
            if input_kind(self.sources[index]) is not InputKind.GRAPH:
                places = np.argsort(written_order(self.mol(index))) + first
                places = np.concatenate([np.arange(first), places])
                for axis in axes:
                    values = values.take(places, axis)
            results.append(values)
        return results

    def edge_label_index(self, level: Level) -> list[NDArray]:
        """Atoms [n, 2] of the edges or links that a model predicts, for each graph, numbered as
        in the source."""
        chunk = self.chunk.with_edge_label_index(level)
        counts = chunk.num_edges if level is Level.EDGE else chunk.num_links
        ends = np.split(chunk.edge_label_index.T, np.cumsum(counts)[:-1])
        if self.is_canonical:
            for index, source in enumerate(self.sources):
                if input_kind(source) is not InputKind.GRAPH:  # else as it was given
                    ends[index] = written_order(self.mol(index))[ends[index]]
        return ends

    def features(self, block: str) -> NDArray:
        """`molecule_features` of a block that reads molecules, computed once."""
        if block not in self._features:
            self._features[block] = (
                rounded(self.descriptors)
                if block == "descriptors"
                else molecule_features(block, self.descriptor_mols)
            )
        return self._features[block]


def _mol_as_written(source: Source, featuriser: Featuriser) -> Chem.Mol:
    """The molecule of a source, its atoms in the order of the source."""
    (mol,) = featuriser.without_canonical_order().mols(source)
    return mol


def written_order(mol: Chem.Mol) -> NDArray:
    """Atoms of a molecule in the order of `from_canonical`."""
    if from_canonical(mol) is mol:
        return np.arange(mol.GetNumAtoms())
    return np.array(mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"], int)


def read(
    inputs: Sequence[Any],
    featuriser: Featuriser,
    edge_kind: str = "",
    level: Level = Level.GRAPH,
    keep_parsed: bool = True,
) -> Molecules:
    """Read molecules and graphs for models of a featuriser that predict a ``level``; see
    `chunks_of_graphs` for ``edge_kind``. Without ``keep_parsed`` none of RDKit's molecules is
    kept, of which a peptide takes 150 kB."""
    kind = input_kind(inputs)
    if kind is InputKind.PATH:
        raise ValueError(f"{inputs}: a file; give SMILES, or call graphormer-predict")
    if kind is not InputKind.OTHER:
        one = repr(inputs) if kind is InputKind.SMILES else kind
        batch = ", or batch.to_data_list()" if kind is InputKind.GRAPH else ""
        raise ValueError(f"expected a list, got one {kind}: give [{one}]{batch}")
    graphs = []
    parsed = []
    with captured_rdkit_log() as messages:
        for index, item in enumerate(inputs):
            mol = None
            try:
                kind = input_kind(item)
                if kind is InputKind.ASE:
                    tags = item.get_tags() if item.has("tags") else None
                    item = Atoms.of(item.numbers, item.positions, tags)
                if isinstance(item, Source):
                    graph = parse(item, featuriser.read, messages)
                    mol = graph.extras.pop("mol", None)
                elif kind is InputKind.MOLECULE:
                    graph = graph_of_molecule(item, featuriser, messages)
                elif kind is InputKind.GRAPH:
                    graph = item
                    check_vocabulary(item, featuriser, messages)
                else:
                    raise ValueError("neither a SMILES, a graph nor an RDKit molecule")
            except ValueError as error:
                is_short = kind in (InputKind.SMILES, InputKind.PATH, InputKind.OTHER)
                text = f", {item!r}" if is_short else ""
                raise ValueError(f"{kind} {index}{text}: {error}") from None
            graphs.append(graph)
            if keep_parsed:
                parsed.append(mol)
    options = {"edge_kind": edge_kind, "with_target": False, "progress": False}
    if any(getattr(graph, "edge_label_index", None) is not None for graph in graphs):
        options["level"] = level
    chunks = list(chunks_of_graphs(graphs, **options))
    chunk = GraphChunk.joined(chunks) if chunks else None
    return Molecules(chunk, inputs, featuriser, parsed if keep_parsed else None)


def read_rows(
    reader: RowReader, sources: Sequence[Source]
) -> tuple[Molecules, dict[int, str]]:
    """Read the sources of rows of a table, in this process or in a worker.

    Returns:
        the molecules of the rows that have a graph, with the row in ``chunk.row``, and
        for each other row the reason why it has none.
    """
    graphs, reasons = read_sources(dict(enumerate(sources)), reader)
    chunk = joined_graphs(graphs) if graphs else None
    parsed = [graph.extras.get("mol") for graph in graphs.values()]
    sources = [sources[row] for row in graphs]
    nearest = [graph.extras.get("nearest", np.nan) for graph in graphs.values()]
    return Molecules(chunk, sources, reader.featuriser, parsed, nearest), reasons


def graph_of_molecule(
    mol: Chem.Mol, featuriser: Featuriser, messages: list[str]
) -> MoleculeGraph:
    """Graph of an RDKit molecule, as of its SMILES, with the atoms in the molecule's order
    unless the featuriser is canonical; without explicit hydrogens, and with its positions only
    for a featuriser of such."""
    messages.clear()
    if featuriser.reads is MolBlock:
        return featuriser.graph(mol)
    plain = featuriser.without_canonical_order()  # the molecule's SMILES is canonical
    parser = plain.read
    try:
        mol = without_hydrogens(mol)  # checks valences and finds aromatic rings, too
    except ValueError as error:
        raise ValueError(messages[0] if messages else str(error)) from None
    mol = featuriser.select_fragment(mol)
    smiles = Chem.MolToSmiles(mol)
    graph = parse(smiles, parser, messages)
    if plain != featuriser:
        return graph
    atoms = np.array(mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    place = np.argsort(atoms)  # of each atom in the graph of the SMILES
    pos = None if graph.pos is None else graph.pos[place]
    return graph._replace(x=graph.x[place], edge_index=atoms[graph.edge_index], pos=pos)


def check_vocabulary(graph: Any, featuriser: Featuriser, messages: list[str]) -> None:
    """Raise ValueError for a graph with other codes than a model was trained on: 6 is carbon
    for PyG's ``from_smiles`` and nitrogen for OGB. A graph names its code in
    ``vocabulary``, or is compared with the graph of its ``smiles``."""
    plain = featuriser.without_canonical_order()
    vocabulary = getattr(graph, "vocabulary", None)
    smiles = getattr(graph, "smiles", None)
    if plain.name in ("", vocabulary):
        return
    if vocabulary is not None:
        defect = (
            f"its vocabulary is {vocabulary!r}, the model was trained on {plain.name!r}"
        )
    elif not isinstance(smiles, str):
        defect = f"it does not say what its codes mean: set vocabulary = {plain.name!r}"
    else:
        expected = parse(smiles, plain.read, messages)
        if np.array_equal(np.asarray(graph.x), expected.x):
            return
        defect = f"its atom features differ from those of the training for {smiles!r}"
    raise ValueError(
        f"{defect}, or give SMILES (PyG's from_smiles encodes atoms differently)"
    )


def smiles_of(inputs: Sequence[Any], featuriser: Featuriser) -> list[str]:
    """SMILES of the molecules that the graphs of some inputs show."""
    texts = []
    for index, item in enumerate(inputs):
        if isinstance(item, Chem.Mol):
            item = Chem.MolToSmiles(without_hydrogens(item))
        text = item if isinstance(item, str) else getattr(item, "smiles", None)
        if not isinstance(text, str):
            raise ValueError(f"input {index} does not say which molecule it is")
        texts.append(text)
    is_written = featuriser == featuriser.without_canonical_order().with_all_fragments()
    return [
        (
            text
            if is_written and not HEAVY_HYDROGEN.search(text)
            else Chem.MolToSmiles(_mol_as_written(text, featuriser))
        )
        for text in texts
    ]
