"""Biased attention beside `torch.nn.MultiheadAttention` without a bias: how many times as fast."""

import argparse
import statistics
import time
from functools import partial

import torch
from torch import Tensor, nn

from graphormer_plugin.modules import BiasedAttention

WIDTHS = ((64, 8), (64, 4), (128, 4), (256, 4))  # and heads
SIZES = ((64, 18), (32, 37), (16, 80), (8, 150), (4, 400))  # graphs, and nodes of each


def milliseconds(threads: int, call) -> float:
    """Median time of seven calls, of the CPU if there is one thread."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times = []
    for _ in range(8):
        start = clock()
        result = call()
        if result.requires_grad:
            result.sum().backward()
        times.append(clock() - start)
    return 1e3 * statistics.median(times[1:])


def first_of(attention: nn.MultiheadAttention, x: Tensor, padding: Tensor) -> Tensor:
    """torch's attention without its weights."""
    return attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def main() -> None:
    """Print a line for each width and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    for width, heads in WIDTHS:
        for graphs, nodes in SIZES:
            x = torch.randn(graphs, nodes, width)
            padding = torch.zeros(graphs, nodes, dtype=torch.bool)
            padding[:, -nodes // 8 :] = True
            bias = torch.zeros(graphs, heads, nodes, nodes)
            bias.masked_fill_(padding[:, None, None], -1e9)
            texts = []
            for dropout, trains in ((0.0, True), (0.1, True), (0.0, False)):
                attention = BiasedAttention(width, heads, dropout).train(trains)
                torch_attention = nn.MultiheadAttention(
                    width, heads, dropout=dropout, batch_first=True
                ).train(trains)

                calls = (
                    partial(attention, x, bias),
                    partial(first_of, torch_attention, x, padding),
                )
                with torch.set_grad_enabled(trains):
                    own, other = (milliseconds(threads, call) for call in calls)
                texts.append(f"{other / own:.2f}")
            print(f"{heads} x {width // heads}, {nodes} nodes:", *texts, flush=True)


if __name__ == "__main__":
    main()
