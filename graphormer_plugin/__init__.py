"""Graph Transformers as a fairseq plugin.

``fairseq-train --user-dir graphormer_plugin ...`` imports this folder under its own
name, ``graphormer_plugin``, and so does Python: keep to that name, because a second
import under another one would register everything twice. With ``--user-dir`` fairseq
imports every public file in ``tasks`` and ``models``; a plain ``import
graphormer_plugin`` does the same here, so that both register the same components.
"""

from graphormer_plugin.compat.quick_imports import quick_imports

with quick_imports():
    from graphormer_plugin import criterions, models, optim, tasks
    from graphormer_plugin.compat import patches
    from graphormer_plugin.components import import_modules

    import_modules(tasks)

patches.apply()

__all__ = ["criterions", "models", "optim", "tasks"]
