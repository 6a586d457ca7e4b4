"""Versions of the packages that a result depends on."""

import platform
from importlib import metadata

# Import name -> name on the package index.
DISTRIBUTIONS = {
    "graphormer_plugin": "graphormer-plugin",
    "torch": "torch",
    "fairseq": "fairseq-fixed",
    "torch_geometric": "torch-geometric",
    "rdkit": "rdkit",
    "ogb": "ogb",
    "numpy": "numpy",
    "sklearn": "scikit-learn",
}


def versions() -> dict[str, str]:
    """Version of Python and of each package, or 'not installed'."""
    found = {"python": platform.python_version()}
    for name, distribution in DISTRIBUTIONS.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
