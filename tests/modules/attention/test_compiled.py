"""The attention layers on the compiled function: equal to the operations of torch."""

import contextlib

import pytest
import torch

from graphormer_plugin.modules import (
    BiasedAttention,
    RelativeAttention,
    plain_attention,
)
from graphormer_plugin.modules.attention import compiled as compiled_attention
from graphormer_plugin.modules.attention import relative as relative_attention
from graphormer_plugin.modules.attention.chromatic import PairVectors, filter_messages
from graphormer_plugin.modules.attention.edge import EdgeAttention
from graphormer_plugin.modules.attention.formula import RelationTables
from graphormer_plugin.modules.encoders.base import Encoder

B, T, H, R = 4, 11, 4, 7


class Case:
    """A layer, its arguments, and what has a gradient."""

    def __init__(self, kind, d=6, dropout=0.0):
        torch.manual_seed(0)
        self.x = torch.randn(B, T, H * d, requires_grad=True)
        bias = torch.randn(B, H, T, T, requires_grad=True)
        if kind == "graphormer":
            self.layer = BiasedAttention(H * d, H, dropout)
            self.arguments, inputs = (bias,), [bias]
        else:
            key_from_row = kind == "grpe, key from row"
            self.layer = RelativeAttention(H * d, H, dropout, key_from_row)
            tables = torch.randn(3, H, R + 1, d)
            tables[:, :, R] = 0
            tables = RelationTables(*(table.requires_grad_() for table in tables))
            index = torch.randint(0, R, (B, T, T))
            for graph, size in zip(index, (T, 1, 4, 9)):
                graph[:, size:] = R
            inputs = [*tables]
            self.arguments = tables, index
            if kind == "grpe, bias":
                self.arguments, inputs = (*self.arguments, bias), [*inputs, bias]
        self.inputs = [self.x, *inputs, *self.layer.parameters()]

    def double(self):
        """The same in float64, which the compiled function does not take."""
        self.layer.double()
        x, *others = self.inputs
        number = len(others) - len([*self.layer.parameters()])
        self.x = x.detach().double().requires_grad_()
        others = [other.detach().double().requires_grad_() for other in others[:number]]
        self.inputs = [self.x, *others, *self.layer.parameters()]
        if isinstance(self.layer, BiasedAttention):
            self.arguments = others
        else:
            index = self.arguments[1]
            self.arguments = RelationTables(*others[:3]), index, *others[3:]

    def out(self):
        return self.layer(self.x, *self.arguments)

    def out_and_gradients(self, create_graph=False):
        out = self.out()
        out_gradient = torch.linspace(-1, 1, out.numel()).view_as(out)
        gradients = torch.autograd.grad(
            out, self.inputs, out_gradient, create_graph=create_graph
        )
        return [out.detach(), *map(self.without_constants, gradients)]

    @staticmethod
    def without_constants(gradient):
        """Row R of a table is constant: its gradient is not used."""
        return gradient[:, :R] if gradient.shape[:2] == (H, R + 1) else gradient


KINDS = ["graphormer", "grpe", "grpe, key from row", "grpe, bias"]


@pytest.fixture(params=["own backward pass", "plain"])
def without(request, monkeypatch):
    """Switches the compiled function off, and the operations with a backward pass too."""
    with contextlib.ExitStack() as stack:
        if request.param == "plain":
            yield lambda: stack.enter_context(plain_attention())
        else:
            yield lambda: monkeypatch.setattr(
                compiled_attention, "HAS_ATTENTION", False
            )


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_torch(kind, without):
    case = Case(kind)
    compiled = case.out_and_gradients()
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert torch.equal(case.out(), compiled[0])
    without()
    plain = case.out_and_gradients()
    for one, other in zip(compiled, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not torch.equal(compiled[0], plain[0])  # the last bits say who computed it


@pytest.mark.parametrize("kind", ["graphormer", "grpe, bias"])
def test_a_bias_for_all_rows_has_a_gradient(kind, without):
    case = Case(kind)
    *others, bias = case.arguments
    row = bias.detach()[:, :, :1].clone().requires_grad_()
    case.arguments = *others, row
    case.inputs = [row, case.x]
    compiled = case.out_and_gradients()
    without()
    for one, other in zip(compiled, case.out_and_gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_follows_the_seed(kind):
    case = Case(kind, dropout=0.5)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(case.out_and_gradients())
    assert all(torch.equal(*pair) for pair in zip(*results[:2]))
    assert not torch.equal(results[0][0], results[2][0])
    case.layer.eval()
    assert torch.equal(case.out(), case.out())


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_that_of_the_forward_pass(kind):
    """The result is linear in the values: its change is the gradient times theirs."""
    case = Case(kind, dropout=0.5)
    bias = case.layer.qkv_proj.bias
    torch.manual_seed(1)
    out = case.out().sum()
    (gradient,) = torch.autograd.grad(out, bias)
    step = torch.zeros_like(bias)
    step[-len(bias) // 3 :] = torch.randn(len(bias) // 3)
    with torch.no_grad():
        bias += step
    torch.manual_seed(1)
    change = case.out().sum() - out
    torch.testing.assert_close(change, gradient @ step, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_second_derivatives(kind, dropout):
    """Gradients with a graph are the compiled ones, also of what the dropout keeps; those of
    their squares are those of the formula in float64."""
    case = Case(kind, dropout=dropout)
    torch.manual_seed(1)
    fast = case.out_and_gradients()
    torch.manual_seed(1)
    gradients = case.out_and_gradients(create_graph=True)
    for one, other in zip(gradients, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    if dropout:  # the formula in float64 would draw others
        return
    squares = sum(gradient.square().sum() for gradient in gradients[1:])
    second = torch.autograd.grad(squares, case.inputs, materialize_grads=True)
    case.double()
    exact = sum(g.square().sum() for g in case.out_and_gradients(create_graph=True)[1:])
    exact = torch.autograd.grad(exact, case.inputs, materialize_grads=True)
    for one, other in zip(map(case.without_constants, second), exact, strict=True):
        other = case.without_constants(other)
        error = (one.double() - other).norm() / other.norm().clamp(min=1)
        assert error < 1e-4


def test_checkpointed_layers_drop_the_same():
    case = Case("grpe", dropout=0.5)
    gradients = []
    for checkpointed in (False, True):
        encoder = Encoder()
        encoder.checkpoint_activations = checkpointed
        torch.manual_seed(1)
        out = encoder.run_layer(case.layer, case.x, *case.arguments)
        gradients.append(torch.autograd.grad(out.square().sum(), case.x)[0])
    assert torch.equal(*gradients)


@pytest.mark.parametrize("kind", ["graphormer", "grpe"])
def test_bfloat16_is_computed_in_float32(kind):
    """Errors are those of rounding the inputs, 2^-8, and the output; gradients too."""
    case = Case(kind)
    expected = case.out_and_gradients()
    case.layer.to(torch.bfloat16)
    case.x = case.inputs[0] = case.x.detach().to(torch.bfloat16).requires_grad_()
    found = case.out_and_gradients()
    assert found[0].dtype == found[1].dtype == torch.bfloat16
    for one, other in zip(found, expected, strict=True):
        assert (one.float() - other).abs().max() < 0.05 * other.abs().max()


@pytest.mark.parametrize("kind", ["graphormer", "grpe"])
@pytest.mark.parametrize("reason", ["float64", "float16", "compiling", "switched off"])
def test_operations_of_torch_take_the_rest(kind, reason, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("compiled attention")

    case = Case(kind)
    monkeypatch.setattr(compiled_attention, "relative_attention", refuse)
    if reason == "compiling":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    elif reason == "switched off":
        own = relative_attention._RelativeAttention
        monkeypatch.setattr(own, "apply", refuse)
    else:
        dtype = getattr(torch, reason)
        case.layer.to(dtype)
        case.x = case.x.to(dtype)
    with plain_attention(reason == "switched off"):
        assert case.out().isfinite().all()


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("dropped", [True, False])
@pytest.mark.parametrize("receivers", [T, 1])
def test_channels_equal_to_torch(receivers, dropped, lean, without):
    torch.manual_seed(0)
    D, F = 20, 6
    shapes = (B, receivers, T, H), (B, T, D), (F, D), (F, D)
    base, v, att, val = inputs = [torch.randn(s, requires_grad=True) for s in shapes]
    # Neither scores nor factors are contiguous.
    base = base.transpose(1, 2).contiguous().transpose(1, 2)
    keep = (torch.rand(B, T, T) < 0.5).float().mT * 2 if dropped else None
    features = torch.randn(B, T, T, F) * (torch.rand(B, T, T, F) < 0.5)
    pairs = PairVectors(features, att, val, lean)
    results = []
    for _ in ("compiled", "torch"):
        out = filter_messages(base, v, keep, pairs)
        first = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        again = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(again[0].square().sum() + again[2].sum(), inputs)
        results.append([out, *first, *again, *(x / x.abs().max() for x in second)])
        without()
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert not torch.equal(results[0][0], results[1][0])


@pytest.mark.parametrize("kinds", [0, 2, 90])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_edges_equal_to_torch(dropout, kinds, without):
    """By kinds, also so many that the kernel takes a factor per edge; second derivatives."""
    torch.manual_seed(0)
    layer = EdgeAttention(12, 3, dropout, epsilon=1e-6)
    index, kind = torch.randint(B * T, (2, 99)), torch.randint(kinds or 1, (99,))
    qkv = torch.randn(B * T, 36, requires_grad=True)
    factor = torch.randn(kinds or 99, 12, requires_grad=True)
    results = []
    for _ in ("compiled", "torch"):
        torch.manual_seed(1)
        out, terms = layer.messages(qkv, factor, index, kind if kinds else None, True)
        total = out.square().sum() + terms.cos().sum()
        first = torch.autograd.grad(total, (qkv, factor), retain_graph=True)
        again = torch.autograd.grad(total, (qkv, factor), create_graph=True)
        squares = again[0].square().sum() + again[1].square().sum()
        second = torch.autograd.grad(squares, (qkv, factor))
        results.append(
            [out, terms, *first, *again, *(x / x.abs().max() for x in second)]
        )
        without()
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert not torch.equal(results[0][0], results[1][0])
