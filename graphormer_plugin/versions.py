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
    return numbers | {name: version(name) for name in DISTRIBUTIONS}


def version(name: str) -> str:
    """Version of a package by its import name, or 'not installed'."""
    for distribution in DISTRIBUTIONS[name]:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return "not installed"
