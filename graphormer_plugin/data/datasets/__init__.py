"""Where graphs come from; every module here registers its datasets."""

import sys

from graphormer_plugin.components import import_modules
from graphormer_plugin.data.datasets.zinc import parse_zinc_smiles
from graphormer_plugin.data.smiles import parse_largest_fragment, parse_smiles

import_modules(sys.modules[__name__])

# What makes a graph of a SMILES, by the name that checkpoints carry.
FEATURISERS = {
    "ogb": parse_smiles,
    "ogb_largest_fragment": parse_largest_fragment,
    "zinc": parse_zinc_smiles,
}
