"""Example of a folder for ``--user-dir``, which imports it."""

import graphormer_plugin  # noqa: F401  (its tasks, losses, datasets and architectures)

# They register themselves.
from . import common_neighbours, mixer, near_degrees, resistance  # noqa: F401
