"""Graph Transformers as a fairseq plugin.

``fairseq-train --user-dir graphormer_plugin ...`` imports this folder under its own
name, ``graphormer_plugin``, and so does Python: keep to that name, because a second
import under another one would register everything twice. With ``--user-dir`` fairseq
imports every public file in ``tasks`` and ``models``; a plain ``import
graphormer_plugin`` does the same here, so that both register the same components.
"""

import importlib
import pkgutil

from graphormer_plugin import criterions, models, tasks

for _package in (tasks, models):
    for _module in pkgutil.iter_modules(_package.__path__, _package.__name__ + "."):
        if not _module.name.rsplit(".", 1)[1].startswith("_"):
            importlib.import_module(_module.name)

__all__ = ["criterions", "models", "tasks"]
