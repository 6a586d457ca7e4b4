"""Dropout: the probability, the scale, the gradient and the generator."""

import pytest
import torch

from graphormer_plugin.modules import Dropout


@pytest.mark.parametrize("p", [0.003, 0.1, 0.5, 0.97])
def test_share_of_zeros_and_scale(p):
    torch.manual_seed(0)
    x = torch.ones(1001, 999)  # no multiple of the width of a vector
    out = Dropout(p)(x)
    zeros = (out == 0).double().mean().item()
    sigma = (p * (1 - p) / x.numel()) ** 0.5
    assert abs(zeros - p) < 5 * sigma + 2**-16
    assert torch.allclose(out[out != 0], torch.tensor(1 / (1 - p)))


def test_neighbouring_elements_are_independent():
    torch.manual_seed(0)
    dropped = Dropout(0.5)(torch.ones(400_000)) == 0
    for lag in (1, 2, 3, 4):
        both = (dropped[lag:] & dropped[:-lag]).double().mean().item()
        assert abs(both - 0.25) < 5 * (0.25 * 0.75 / 400_000) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_is_zero_exactly_where_the_output_is(dtype):
    x = torch.ones(50, 51, dtype=dtype, requires_grad=True)
    weight = torch.ones_like(x, requires_grad=True)
    out = Dropout(0.3)(x)
    (grad,) = torch.autograd.grad(out, x, weight, create_graph=True)
    assert torch.equal(grad, out)
    (second,) = torch.autograd.grad(grad.sum(), weight)
    assert torch.equal(second, out)


def test_seed_decides():
    outs = []
    for _ in range(2):
        torch.manual_seed(7)
        outs.append(Dropout(0.4)(torch.ones(100)))
    assert torch.equal(*outs)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 7)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_shapes_and_dtypes(shape, dtype):
    out = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert out.shape == shape and out.dtype == dtype
    assert ((out == 0) | (out == 2)).all()


def test_off_in_evaluation_and_at_zero():
    x = torch.randn(10)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
