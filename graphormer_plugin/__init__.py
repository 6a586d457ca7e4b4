"""Graph Transformers as a fairseq plugin.

``fairseq-train --user-dir graphormer_plugin ...`` imports this folder under its own
name, ``graphormer_plugin``, and so does Python: keep to that name, because a second
import under another one would register everything twice. With ``--user-dir`` fairseq
imports every public file in ``tasks`` and ``models``; a plain ``import
graphormer_plugin`` does the same here, so that both register the same components.
"""

from graphormer_plugin.quick_imports import quick_imports

with quick_imports():
    from graphormer_plugin import criterions, models, optim, tasks
    from graphormer_plugin.checkpoint_files import replace_fairseq_functions
    from graphormer_plugin.command_line import replace_fairseq_parser
    from graphormer_plugin.components import import_modules
    from graphormer_plugin.training_errors import guard_trainer

    import_modules(tasks)

replace_fairseq_functions()
replace_fairseq_parser()
guard_trainer()

__all__ = ["criterions", "models", "optim", "tasks"]
