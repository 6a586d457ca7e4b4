"""Versions of the packages that a result depends on."""

import contextlib
import platform
from importlib import metadata

# Import name -> alternative names on the package index.
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
    numbers = {"python": platform.python_version()}
    for name, distributions in DISTRIBUTIONS.items():
        numbers[name] = "not installed"
        for distribution in distributions:
            with contextlib.suppress(metadata.PackageNotFoundError):
                numbers[name] = metadata.version(distribution)
    return numbers
