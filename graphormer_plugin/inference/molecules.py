"""Graphs for a trained model out of SMILES, with the featuriser of its training."""

from collections.abc import Sequence
from typing import Any

from graphormer_plugin.data.chunk import MoleculeGraph, Parser
from graphormer_plugin.data.columns import check_features
from graphormer_plugin.data.datasets import FEATURISERS
from graphormer_plugin.data.featurise import LimitedParser, captured_rdkit_log, parse
from graphormer_plugin.data.schema import FeatureSchema


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
    """Replace the SMILES among the inputs by graphs; other inputs are graphs already.

    Raises:
        ValueError: RDKit refuses a SMILES, there is no featuriser, or an input is neither
            a SMILES nor a graph. The message has the input's number.
    """
    graphs = []
    with captured_rdkit_log() as messages:
        for number, item in enumerate(inputs):
            if isinstance(item, str):
                try:
                    item = parse(item, parser_of(featuriser), messages)
                except ValueError as error:
                    raise ValueError(f"SMILES {number}, {item!r}: {error}") from None
            elif not hasattr(item, "edge_index"):
                raise ValueError(
                    f"input {number}, {item!r}, is neither a SMILES nor a graph"
                )
            graphs.append(item)
    return graphs


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
        self.schemas = list(schemas)

    def __call__(self, smiles: str) -> MoleculeGraph:
        """Raises ValueError with the reason why there is no graph."""
        if not smiles:
            raise ValueError("no SMILES")
        graph = parser_of(self.name, self.max_atoms)(smiles)
        for schema in self.schemas:
            edges = graph.edge_index.shape[1]
            check_features(graph.x, graph.edge_attr, edges, schema)
        return graph
