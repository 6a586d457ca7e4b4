"""Components of a user, which ``--user-dir`` imports."""

import graphormer_plugin  # noqa: F401  (its tasks, losses, datasets and architectures)

from . import common_neighbours, mixer  # noqa: F401  (they register themselves)
