"""Clusters of similar molecules."""

import pytest

from graphormer_plugin.data.graphs.clusters import clusters_of
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser

CHAINS = ["C" * k + "O" for k in range(12, 16)]
RINGS = ["c1ccccc1" + "C" * k for k in range(8, 12)]


@pytest.mark.parametrize("most", [100, 1])  # Butina's, and leaders
def test_clusters(most):
    smiles = [*CHAINS, "O=C1CCCN1", *RINGS, "OCCCCCCCCCCCCCC", CHAINS[0] + ".Cl"]
    names = clusters_of(smiles, OGBFeaturiser(largest_fragment=True).mol, most)
    groups = {}
    for number, name in enumerate(names):
        groups.setdefault(name, set()).add(number)
    assert {*map(frozenset, groups.values())} == {
        frozenset({0, 1, 2, 3, 9, 10}),  # without the salt, 10 is 0
        frozenset({4}),
        frozenset({5, 6, 7, 8}),
    }
    assert clusters_of(["CCO"], most=most) == ["0"]
