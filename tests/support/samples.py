"""Samples as a criterion gets them."""

import torch


def sample_of(target, batch=None, **more):
    """A sample of fairseq; ``more`` are further entries."""
    count = len(target)
    given = {"net_input": {"batch": batch or {}}, "target": target}
    return given | {"id": torch.arange(count), "ntokens": 1, "nsamples": count} | more
