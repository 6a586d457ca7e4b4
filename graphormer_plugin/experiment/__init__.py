"""One experiment: split a table of molecules, train, compare with references, report."""

import graphormer_plugin.tasks  # noqa: F401  (registers them with fairseq)
