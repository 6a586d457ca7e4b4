"""Graphs for a trained model out of SMILES, with the featuriser of its training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.chunk import MoleculeGraph, Parser
from graphormer_plugin.data.columns import check_features
from graphormer_plugin.data.datasets import FEATURISERS
from graphormer_plugin.data.datasets.smiles import (
    choose_fragment,
    feature_dims,
    mol_of_any_smiles,
    mol_of_smiles,
)
from graphormer_plugin.data.featurise import LimitedParser, captured_rdkit_log, parse
from graphormer_plugin.data.schema import FeatureSchema

# What the codes of a featuriser are, for messages.
MEANING = {
    "ogb": "those of ogb.utils.smiles2graph",
    "ogb_largest_fragment": "those of ogb.utils.smiles2graph",
    "zinc": "those of PyG's ZINC",
}


def parser_of(featuriser: str, max_atoms: int | None = None) -> Parser:
    """The function of `FEATURISERS` that turns a SMILES into a graph.

    Args:
        featuriser: its key.
        max_atoms: atoms of the largest molecule; None for no limit.

    Raises:
        ValueError: there is no such featuriser.
    """
    if featuriser not in FEATURISERS:
        raise ValueError(
            "the checkpoint does not say how SMILES become the graphs that the model "
            "was trained on; give graphs with the same features"
        )
    parser = FEATURISERS[featuriser]
    return parser if max_atoms is None else LimitedParser(parser, max_atoms)


def parse_all(inputs: Sequence[Any], featuriser: str) -> list[Any]:
    """Replace the molecules among the inputs by graphs; other inputs are graphs already.

    Args:
        inputs: SMILES, RDKit molecules and graphs.
        featuriser: key of `FEATURISERS` that made the graphs of the training; empty if
            they were not made of SMILES.

    Raises:
        ValueError: RDKit refuses a molecule, there is no featuriser, a graph may have
            other codes, or an input is none of these. The message has the input's number.
    """
    graphs = []
    with captured_rdkit_log() as messages:
        for number, item in enumerate(inputs):
            if isinstance(item, str):
                try:
                    item = parse(item, parser_of(featuriser), messages)
                except ValueError as error:
                    raise ValueError(f"SMILES {number}, {item!r}: {error}") from None
            elif isinstance(item, Chem.Mol):
                try:
                    item = graph_of_molecule(item, featuriser, messages)
                except ValueError as error:
                    raise ValueError(f"molecule {number}: {error}") from None
            elif hasattr(item, "edge_index"):
                try:
                    check_vocabulary(item, featuriser, messages)
                except ValueError as error:
                    raise ValueError(f"graph {number}: {error}") from None
            else:
                raise ValueError(
                    f"input {number}, {item!r}, is neither a SMILES nor a graph nor a "
                    "molecule of RDKit"
                )
            graphs.append(item)
    return graphs


def molecule_of(smiles: str, featuriser: str) -> Chem.Mol:
    """The molecule whose atoms are the nodes of its graph, in their order."""
    mol = mol_of_smiles(smiles)
    return choose_fragment(mol) if featuriser.endswith("largest_fragment") else mol


def graph_of_molecule(
    mol: Chem.Mol, featuriser: str, messages: list[str]
) -> MoleculeGraph:
    """Graph of an RDKit molecule: that of its SMILES, with the atoms in its own order.

    Leaves out hydrogens that a SMILES does not write, and positions.

    Args:
        mol: the molecule; is not changed.
        featuriser: see `parser_of`.
        messages: those of `captured_rdkit_log`, within which this is called.

    Raises:
        ValueError: RDKit or the featuriser refuses it.
    """
    messages.clear()
    parser = parser_of(featuriser)
    try:
        mol = Chem.RemoveHs(mol)  # which also checks valences and finds aromatic rings
    except ValueError as error:
        raise ValueError(messages[0] if messages else str(error)) from None
    if featuriser.endswith("largest_fragment"):
        mol = choose_fragment(mol)
    smiles = Chem.MolToSmiles(mol)
    graph = parse(smiles, parser, messages)
    atoms = np.array(mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    x = np.empty_like(graph.x)
    x[atoms] = graph.x
    return graph._replace(x=x, edge_index=atoms[graph.edge_index])


def check_vocabulary(graph: Any, featuriser: str, messages: list[str]) -> None:
    """Check that a graph has the codes that a model was trained on.

    The same number is another element in another code: 6 is carbon for PyG's
    ``from_smiles`` and nitrogen for OGB. A graph names its code in ``vocabulary``, or is
    compared with the graph of its ``smiles``.

    Args:
        graph: PyG ``Data``, or anything with its attributes.
        featuriser: that of the model; nothing is checked without one.
        messages: see `graph_of_molecule`.

    Raises:
        ValueError: it has other codes, or none are named.
    """
    if not featuriser:
        return
    vocabulary = getattr(graph, "vocabulary", None)
    if vocabulary == featuriser:
        return
    if vocabulary is not None:
        raise ValueError(
            f"its vocabulary is {vocabulary!r}, the model was trained on {featuriser!r}"
        )
    smiles = getattr(graph, "smiles", None)
    if not isinstance(smiles, str):
        raise ValueError(
            "it does not say what its codes mean. Give SMILES or RDKit molecules "
            f"instead, or set its attribute vocabulary = {featuriser!r} if they are "
            f"{MEANING.get(featuriser, 'those of the training')}"
        )
    expected = parse(smiles, parser_of(featuriser), messages)
    if not np.array_equal(np.asarray(graph.x), expected.x):
        raise ValueError(
            f"its codes are not those of the training ({featuriser}) for its SMILES "
            f"{smiles!r}; PyG's from_smiles has codes of its own. Give the SMILES instead"
        )


def smiles_of(inputs: Sequence[Any], featuriser: str) -> list[str]:
    """SMILES of the molecules that the graphs of some inputs show.

    Args:
        inputs: SMILES, RDKit molecules, and graphs with an attribute ``smiles``.
        featuriser: see `parse_all`.

    Raises:
        ValueError: an input is none of these.
    """
    found = []
    for number, item in enumerate(inputs):
        if isinstance(item, Chem.Mol):
            item = Chem.MolToSmiles(item)
        smiles = item if isinstance(item, str) else getattr(item, "smiles", None)
        if not isinstance(smiles, str):
            raise ValueError(f"input {number} does not say which molecule it is")
        if featuriser.endswith("largest_fragment"):
            smiles = Chem.MolToSmiles(molecule_of(smiles, featuriser))
        found.append(smiles)
    return found


def canonical(inputs: Any) -> Any:
    """Inputs with every molecule as RDKit's canonical SMILES; what it refuses, and
    graphs, stay."""
    if not isinstance(inputs, Sequence):
        return inputs
    return [
        _canonical(item) if isinstance(item, (str, Chem.Mol)) else item
        for item in inputs
    ]


def _canonical(item: str | Chem.Mol) -> str | Chem.Mol:
    with captured_rdkit_log():
        try:
            mol = mol_of_any_smiles(item) if isinstance(item, str) else item
            written = Chem.MolToSmiles(mol)
            mol_of_any_smiles(written)
        except ValueError:
            return item
    return written


class Featuriser:
    """Parser for worker processes: makes graphs that every model of an ensemble can read.

    Args:
        name: key of `FEATURISERS`.
        schemas: vocabularies of the models.
        max_atoms: atoms of the largest molecule.
    """

    def __init__(
        self, name: str, schemas: Sequence[FeatureSchema], max_atoms: int
    ) -> None:
        self.name = name
        self.max_atoms = max_atoms
        # OGB's codes are within OGB's vocabularies: there is nothing to check.
        own = feature_dims() if name.startswith("ogb") else None
        self.schemas = [one for one in schemas if (one.node_dims, one.bond_dims) != own]

    def __call__(self, smiles: str) -> MoleculeGraph:
        """Raises ValueError with the reason why there is no graph."""
        if not smiles:
            raise ValueError("no SMILES")
        graph = parser_of(self.name, self.max_atoms)(smiles)
        for schema in self.schemas:
            edges = graph.edge_index.shape[1]
            check_features(graph.x, graph.edge_attr, edges, schema)
        return graph
