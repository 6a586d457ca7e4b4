"""Losses for graphs for ``--criterion``; `graphormer_plugin.tasks` registers them."""
