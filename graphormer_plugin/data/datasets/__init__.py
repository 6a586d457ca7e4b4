"""Where graphs come from; every module here registers its datasets."""

import functools
import sys

from graphormer_plugin.components import import_modules
from graphormer_plugin.data.datasets.zinc import parse_zinc_smiles
from graphormer_plugin.data.smiles import OGB, parse_smiles

import_modules(sys.modules[__name__])

# Parsers of SMILES, by the name that checkpoints carry.
FEATURISERS = {
    **{name: functools.partial(parse_smiles, how=how) for name, how in OGB.items()},
    "zinc": parse_zinc_smiles,
}
