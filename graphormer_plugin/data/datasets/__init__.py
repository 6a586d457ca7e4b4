"""Where graphs come from; importing a module here registers its datasets."""

from graphormer_plugin.data.datasets import molecules, ogb, pyg

# What makes a graph of a SMILES, by the name that checkpoints carry.
FEATURISERS = {"ogb": molecules.parse_smiles, "zinc": pyg.parse_zinc_smiles}

__all__ = ["FEATURISERS", "molecules", "ogb", "pyg"]
