"""Components of a user, which ``--user-dir`` imports."""

import graphormer_plugin  # noqa: F401  (its tasks, losses, datasets and architectures)

# They register themselves.
from . import common_neighbours, mixer, resistance  # noqa: F401
