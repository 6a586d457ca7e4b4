"""Tasks. Importing them registers everything that this package adds to fairseq.

fairseq imports every file here whose name does not start with _.
"""

import sys

from graphormer_plugin.compat.quick_imports import quick_imports

with quick_imports():
    from graphormer_plugin import criterions, models, optim  # noqa: F401
    from graphormer_plugin.compat import patches
    from graphormer_plugin.components import import_modules

    for package in (criterions, sys.modules[__name__]):
        import_modules(package)

patches.apply()
