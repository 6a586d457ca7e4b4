"""Samples of a model's output with dropout switched on (Monte-Carlo dropout)."""

from collections.abc import Callable

import numpy as np
import torch

from graphormer_plugin.data.graph_columns import graph_digest
from graphormer_plugin.inference.graphs import MAX_PAIRS, Batch, ModelGraphs
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.dropout import dropout_switched_on


def dropout_samples(
    model: GraphModel,
    graphs: ModelGraphs,
    function: Callable[[Batch], np.ndarray],
    count: int,
    seed: int,
) -> tuple[np.ndarray, list[str]]:
    """Results of a function of batches that calls the model, with dropout.

    The random numbers of a graph depend on the graph and the seed alone. The states of
    torch's generators are restored.

    Args:
        model: in evaluation mode, on its device.
        graphs: at least one.
        function: fields of a batch to an array [B, C].
        count: number of samples, >= 1.
        seed: for torch's generators.

    Returns:
        Samples [count, G, C], and the digest of each graph: equal graphs have equal samples.
    """
    forked = torch.random.fork_rng(
        [graphs.device] if graphs.device.type == "cuda" else []
    )
    samples_of: dict[str, np.ndarray] = {}
    keys = []
    with dropout_switched_on(model), forked, torch.no_grad():
        for graph, size in enumerate(graphs.sizes.tolist()):
            key = graph_digest(graphs.columns, graph)
            keys.append(key)
            if key in samples_of:
                continue
            copies = max(1, min(count, MAX_PAIRS // size**2))
            batch = graphs.batch(np.full(copies, graph))
            torch.manual_seed(int(key[:15], 16) ^ seed)
            parts = [function(batch) for _ in range(-(-count // copies))]
            samples_of[key] = np.concatenate(parts)[:count]
    return np.stack([samples_of[key] for key in keys], 1), keys
