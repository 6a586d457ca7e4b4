"""Published benchmarks; every module here registers its datasets."""

import sys

from graphormer_plugin.components import import_modules

import_modules(sys.modules[__name__])
