"""Versions of the packages that a result depends on."""

import contextlib
import platform
from importlib import metadata

# Import name -> names on the package index, of which one is installed.
DISTRIBUTIONS = {
    "graphormer_plugin": ["graphormer-plugin"],
    "torch": ["torch"],
    "fairseq": ["ve-fairseq", "fairseq-fixed"],
    "torch_geometric": ["torch-geometric"],
    "rdkit": ["rdkit"],
    "ogb": ["ogb"],
    "numpy": ["numpy"],
    "sklearn": ["scikit-learn"],
}


def versions() -> dict[str, str]:
    """Version of Python and of each package, or 'not installed'."""
    found = {"python": platform.python_version()}
    for name, distributions in DISTRIBUTIONS.items():
        found[name] = "not installed"
        for distribution in distributions:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(distribution)
    return found
