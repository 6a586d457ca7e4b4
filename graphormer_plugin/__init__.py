"""Graph Transformers as a fairseq plugin.

``fairseq-train --user-dir graphormer_plugin ...`` imports this folder under its own
name, ``graphormer_plugin``, and so does Python: keep to that name, because a second
import under another one would register everything twice. In a program of fairseq the
import registers tasks, architectures, losses and optimisers, which elsewhere
``import graphormer_plugin.tasks`` does. Prediction and the models need no fairseq.
"""

import sys

from graphormer_plugin.versions import version

__version__ = version(__name__)

if "fairseq" in sys.modules:
    from graphormer_plugin import tasks  # noqa: F401
