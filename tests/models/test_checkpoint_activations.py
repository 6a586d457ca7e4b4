"""--checkpoint-activations: the same numbers bit for bit, with less in memory."""

import pytest
import torch

from support.architectures import SMALLEST, has_option, make_batch, tiny_model

TRANSFORMERS = [arch for arch in SMALLEST if has_option(arch, "checkpoint_activations")]
assert len(TRANSFORMERS) == 8


def passes_of(arch, checkpoint, **options):
    """Loss, gradients and statistics after two training passes, and bytes kept."""
    torch.manual_seed(0)
    rates = {"dropout": 0.2, "attention_dropout": 0.2}
    options |= {"encoder_layers": 4, "checkpoint_activations": checkpoint}
    model = tiny_model(arch, **rates, **options).train()
    batch = make_batch(model, range(6))
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage  # not freed, so no address comes twice
        return tensor

    found = []
    for _ in range(2):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = model(batch).square().sum()
        loss.backward()
        found.append(loss.detach())
    found += [p.grad for p in model.parameters()] + list(model.buffers())
    return found, sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    "arch, options",
    [(arch, {}) for arch in TRANSFORMERS]
    + [
        ("cgt_zinc", {"attention_memory": "lean"}),
        ("cgt_zinc", {"own_edge_encoding": True}),
        ("gt_zinc", {"no_edge_features": True}),
        ("gt_zinc", {"full_graph": True, "no_pair_features": True}),
        ("graphormer_slim", {"edge_type": "aggregation"}),
    ],
)
def test_same_numbers_with_less_memory(arch, options):
    assert all(has_option(arch, name) for name in options)
    plain, kept = passes_of(arch, False, **options)
    again, kept_less = passes_of(arch, True, **options)
    assert len(plain) == len(again) > 2
    for one, other in zip(plain, again):
        assert torch.equal(one, other)
    assert kept_less < 0.7 * kept
