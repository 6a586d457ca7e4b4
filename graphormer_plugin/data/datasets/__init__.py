"""Where graphs come from; importing a module here registers its datasets."""

from graphormer_plugin.data.datasets import molecules, ogb, pyg

__all__ = ["molecules", "ogb", "pyg"]
