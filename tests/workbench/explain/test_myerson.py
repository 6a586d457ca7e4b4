"""Myerson values of small graphs, by their definition."""

from itertools import combinations
from math import factorial

import networkx as nx
import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.workbench.explain import myerson
from graphormer_plugin.workbench.explain.myerson import (
    bits,
    connected_sets,
    myerson_values,
)


def neighbours_of(graph):
    return [sum(1 << other for other in graph[node]) for node in range(len(graph))]


def by_definition(graph, worth):
    """Shapley values of the game in which a coalition is worth the sum of its components."""
    count = len(graph)
    nodes = range(count)

    def of_coalition(members):
        parts = nx.connected_components(graph.subgraph(members))
        return sum(worth[frozenset(part)] for part in parts)

    values = np.zeros(count)
    for node in nodes:
        others = [other for other in nodes if other != node]
        for size in range(count):
            share = factorial(size) * factorial(count - size - 1) / factorial(count)
            for members in combinations(others, size):
                gain = of_coalition({*members, node}) - of_coalition(members)
                values[node] += share * gain
    return values


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(1),
        nx.path_graph(6),
        nx.star_graph(5),
        nx.cycle_graph(6),
        nx.complete_graph(5),
        nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(3)),
        *(nx.gnp_random_graph(7, 0.35, seed) for seed in range(3)),
    ],
)
def test_values_by_definition(graph, rng, monkeypatch):
    neighbours = neighbours_of(graph)
    sets = [*connected_sets(neighbours)]
    subsets = [c for k in range(1, len(graph) + 1) for c in combinations(graph, k)]
    expected = [s for s in subsets if nx.is_connected(graph.subgraph(s))]
    assert sorted(map(tuple, map(bits, sets))) == sorted(expected)
    worth = {frozenset(nodes): rng.normal() for nodes in expected}

    def worth_of(some):
        return np.array([worth[frozenset(bits(members))] for members in some])

    exact = by_definition(graph, worth)
    values, errors = myerson_values(neighbours, worth_of)
    np.testing.assert_allclose(values, exact, rtol=0, atol=1e-12)
    assert not errors.any()
    monkeypatch.setattr(myerson, "MOST_SETS", 0)
    monkeypatch.setattr(myerson, "ORDERS", 4000)
    sampled, errors = myerson_values(neighbours, worth_of)
    assert (np.abs(sampled - exact) <= 5 * errors + 1e-12).all()
    assert sampled.sum() == pytest.approx(exact.sum())


@pytest.mark.parametrize(
    "smiles, count",
    [("CC(=O)Oc1ccccc1C(=O)O", 412), ("CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc21", 9623)],
)
def test_number_of_connected_sets(smiles, count):
    bonds = Chem.GetAdjacencyMatrix(Chem.MolFromSmiles(smiles))
    neighbours = [sum(1 << int(at) for at in np.flatnonzero(row)) for row in bonds]
    assert sum(1 for _ in connected_sets(neighbours)) == count
