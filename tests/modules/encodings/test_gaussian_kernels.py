"""Gaussian kernels, their types of pairs, and derivatives of distances."""

import math

import pytest
import torch

from graphormer_plugin.modules import DistanceKernels, GaussianKernels, pair_distances
from graphormer_plugin.modules.encodings.pair_encodings import PairTerm
from support.architectures import check_distances_alone, exact_batch, tiny_model

ARCHITECTURES = ("grpe_tiny", "graphormer_slim", "cgt_zinc", "gps_zinc")


def test_kernels_by_hand():
    kernels = GaussianKernels(2)
    kernels.centre.data = torch.tensor([0.0, 4.0])
    kernels.width.data = torch.tensor([2.0, -1.0])
    found = kernels(torch.tensor([2.0]))
    norm = math.sqrt(2 * 3.14159)
    expected = [math.exp(-0.5) / norm / 2, math.exp(-2) / norm]
    torch.testing.assert_close(found, torch.tensor([expected]), rtol=1e-4, atol=0)


def test_starts():
    torch.manual_seed(0)
    wide = GaussianKernels(4000)
    for weight in (wide.centre, wide.width):
        assert 0 <= weight.min() < 0.01 and 2.99 < weight.max() <= 3
    narrow = GaussianKernels(4000, "normal")
    for weight in (narrow.centre, narrow.width):
        assert abs(weight.mean()) < 0.002 and abs(weight.std() - 0.02) < 0.001
    assert (wide.floor, narrow.floor) == (1e-5, 1e-2)
    even = GaussianKernels(4, "even")
    assert even.centre.tolist() == [0, 2, 4, 6] and even.width.tolist() == [2] * 4


@pytest.mark.parametrize("start", ["uniform", "normal"])
@pytest.mark.parametrize("types", ["ordered", "sum"])
@torch.no_grad()
def test_factor_and_shift_of_types_pair_by_pair(types, start):
    torch.manual_seed(0)
    typed = DistanceKernels(3, types, 5, start).double()
    if start == "uniform":  # factors that change nothing
        first = torch.tensor([4])
        plain = typed.kernels(torch.tensor([1.5]).double())
        assert torch.equal(typed(torch.tensor([1.5]).double(), first, first), plain)
    typed.factor.normal_()
    typed.shift.normal_()
    for one in range(5):
        for other in range(5):
            rows = [5 * one + other] if types == "ordered" else [one, 5 + other]
            factor, shift = typed.factor[rows].sum(), typed.shift[rows].sum()
            d = torch.tensor([0.0, 1.7], dtype=torch.float64)
            pair = (torch.full((2,), atom) for atom in (one, other))
            expected = typed.kernels(factor * d + shift)
            torch.testing.assert_close(typed(d, *pair), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("types", ["none", "ordered", "sum"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_outputs_depend_on_distances_alone(arch, types):
    torch.manual_seed(0)
    model = tiny_model(
        arch, pair_encodings="gaussians", gaussian_types=types, gaussian_node_factor=1.0
    )
    check_distances_alone(model.double().eval(), 0.3)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@torch.no_grad()
def test_the_sum_over_nodes_enters_with_its_factor(arch):
    torch.manual_seed(0)
    options = {"pair_encodings": "gaussians", "gaussian_node_factor": 0.5}
    model = tiny_model(arch, **options).double().eval()
    (term,) = (m for m in model.modules() if isinstance(m, PairTerm))
    term.projection.weight.zero_()
    before = model(exact_batch(model, range(6)))
    term.encoding.node_factor = 0.25
    term.nodes.weight.mul_(2)
    after = model(exact_batch(model, range(6)))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-10)
    term.nodes.weight.mul_(2)
    assert (model(exact_batch(model, range(6))) - before).abs().max() > 1e-6


@pytest.mark.parametrize("learned", [False, True])
def test_distances(learned):
    pos = torch.tensor([[[0.0, 0, 0], [3, 4, 0], [0, 0, 0]]], requires_grad=learned)
    assert pair_distances(pos).tolist() == [[[0, 5, 0], [5, 0, 5], [0, 5, 0]]]


def test_derivatives_of_distances():
    torch.manual_seed(0)
    pos = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(pair_distances, pos)
    assert torch.autograd.gradgradcheck(pair_distances, pos)


def test_equal_positions_have_finite_derivatives():
    torch.manual_seed(0)
    pos = torch.zeros(1, 3, 3, dtype=torch.float64)
    pos[0, 2] = 1
    pos.requires_grad_()
    basis = GaussianKernels(5)(pair_distances(pos))
    (forces,) = torch.autograd.grad(basis.sum(), pos, create_graph=True)
    (second,) = torch.autograd.grad(forces.square().sum(), pos)
    assert torch.equal(forces[0, 0], forces[0, 1]) and forces[0, 2].abs().min() > 0
    assert second.isfinite().all() and second.abs().max() > 0
