"""Encodings of the nodes: exact small answers, and what they have in common."""

import math

import pytest
import torch

from graphormer_plugin.modules.encodings.node_encodings import (
    NODE_ENCODINGS,
    NodeTerm,
    walk_matrix,
    walk_powers,
)
from support.architectures import make_batch, tiny_model

# A path a - b - c, and a single node.
MASK = torch.tensor([[True, True, True, False], [True, False, False, False]])
GRAPH = torch.tensor([0, 0, 0, 1])
BOND = torch.zeros(2, 4, 4, dtype=torch.uint8)
for i, j in ((0, 1), (1, 2)):
    BOND[0, i, j] = BOND[0, j, i] = 1
BATCH = {"bond": BOND, "node_mask": MASK, "node_graph": GRAPH}


def numbers(name, *sizes):
    """Numbers before BatchNorm, whose running statistics are 0 and 1."""
    encoding = NODE_ENCODINGS[name](None, *sizes).double().eval()
    return encoding(BOND, MASK, GRAPH)[MASK] * (1 + 1e-5) ** 0.5


def test_a_walk_is_back():
    """After two steps with probability 1/2, 1, 1/2; a single node is never back."""
    never, second = numbers("random_walks", 2).T.tolist()
    assert never == [0] * 4 and second == pytest.approx([0.5, 1, 0.5, 0], abs=1e-12)


@pytest.mark.parametrize("edges", [0, 60, 3000])  # means over neighbours, or products
def test_walks_are_powers(edges):
    """Of directed graphs, some of whose nodes no edge leaves."""
    torch.manual_seed(0)
    bond = torch.zeros(2, 40, 40, dtype=torch.uint8)
    bond.view(-1)[torch.randperm(bond.numel())[:edges]] = 3
    step = walk_matrix(bond, torch.float64)
    for number, found in enumerate(walk_powers(bond, 5, torch.float64), 1):
        torch.testing.assert_close(found, torch.linalg.matrix_power(step, number))


def test_heat_of_a_path():
    """Eigenvalues 0, 1 and 2; squares of the eigenvectors 1/4 1/2 1/4, 1/2 0 1/2 and
    1/4 1/2 1/4. A single node keeps its heat."""
    for number, heat in enumerate(numbers("heat_kernel", 3).T):
        slow, fast = math.exp(-number - 1), math.exp(-2 * number - 2)
        end, middle = 0.25 + slow / 2 + fast / 4, 0.5 + fast / 2
        assert heat.tolist() == pytest.approx([end, middle, end, 1], abs=1e-12)


@torch.no_grad()
def test_signnet_knows_no_signs():
    """Neither the signs of the three eigenvectors matter nor the padding behind them; the
    sign of a node relative to its neighbour does."""
    torch.manual_seed(0)
    term = NodeTerm(NODE_ENCODINGS["signnet"](None, 3), 5).double()
    vectors = torch.zeros(2, 4, 3, dtype=torch.float64)
    vectors[0, :3, :2] = torch.randn(3, 2)
    batch = {**BATCH, "lap_pe": vectors}
    found = term(batch)[MASK]
    flipped = vectors * torch.tensor([1, -1, 1])
    assert torch.allclose(term({**batch, "lap_pe": flipped})[MASK], found, atol=1e-12)
    turned = vectors * torch.tensor([1, -1, 1, 1]).unsqueeze(1)
    assert (term({**batch, "lap_pe": turned})[MASK] - found).abs().max() > 1e-3
    more = NodeTerm(NODE_ENCODINGS["signnet"](None, 3), 5).double().encoding
    more.hidden = torch.nn.Identity()
    features = more(vectors, BOND)
    assert features.any() and not features[0, :, 32:].any() and not features[1].any()


@pytest.mark.parametrize("beside", [0, 3])
@pytest.mark.parametrize("name", sorted(NODE_ENCODINGS))
def test_graphs_may_be_smaller_than_an_encoding(name, beside):
    """One graph is a single node. Of 64 eigenvectors it has none: they are zero."""
    words = f"{name}:64"
    model = tiny_model("grpe_tiny", node_encodings=words, node_encoding_dim=beside)
    width = model.encoder.node_encoder.embedding.embedding_dim
    assert width == model.embed_dim - beside
    batch = make_batch(model, range(6))
    for mode in (model.train, model.eval):
        mode()
        loss = model(batch).square().sum()
        assert loss.isfinite()
    loss.backward()
    (term,) = model.encoder.node_encoder.encodings
    gradients = [weight.grad for weight in term.parameters()]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.any() for gradient in gradients)
