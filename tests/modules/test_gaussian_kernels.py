"""Gaussian kernels, and derivatives of distances."""

import math

import pytest
import torch

from graphormer_plugin.modules import GaussianKernels, pair_distances


def test_kernels_by_hand():
    kernels = GaussianKernels(3, cutoff=4.0)  # centres 0, 2, 4 and widths 2
    found = kernels(torch.tensor([2.0, 4.0]))
    one, two = math.exp(-0.5), math.exp(-2)
    torch.testing.assert_close(found, torch.tensor([[one, 1, one], [two, one, 1]]))


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
    pos = torch.zeros(1, 3, 3, dtype=torch.float64)
    pos[0, 2] = 1
    pos.requires_grad_()
    basis = GaussianKernels(5, cutoff=2.0)(pair_distances(pos))
    (forces,) = torch.autograd.grad(basis.sum(), pos, create_graph=True)
    (second,) = torch.autograd.grad(forces.square().sum(), pos)
    assert torch.equal(forces[0, 0], forces[0, 1]) and forces[0, 2].abs().min() > 0
    assert second.isfinite().all() and second.abs().max() > 0
