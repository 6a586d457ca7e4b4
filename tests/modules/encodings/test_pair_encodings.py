"""Further pair encodings in the three architectures that take them."""

from functools import partial

import pytest
import torch

from graphormer_plugin.modules import PairEncoding, register_pair_encoding
from graphormer_plugin.modules.encoders.base import joined_options
from graphormer_plugin.modules.encodings.pair_encodings import PAIR_ENCODINGS, PairTerm
from support.architectures import make_batch, tiny_model

ARCHITECTURES = ("grpe_tiny", "graphormer_slim", "cgt_zinc")


@pytest.fixture
def registered():
    """What a test registers is forgotten after it."""
    before = dict(PAIR_ENCODINGS)
    yield
    PAIR_ENCODINGS.clear()
    PAIR_ENCODINGS.update(before)


class Hops(PairEncoding):
    """Pairs at one hop, and at two."""

    fields = ("dist",)
    num_features = 2
    field_options = {"max_dist": 253}

    def forward(self, dist):
        return torch.stack([dist == 1, dist == 2], -1)


def projections(model):
    return [m.projection.weight for m in model.modules() if isinstance(m, PairTerm)]


@torch.no_grad()
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_without_weight_they_change_nothing(arch, registered):
    register_pair_encoding("hops")(Hops)
    torch.manual_seed(0)
    plain = tiny_model(arch).double().eval()
    both = tiny_model(arch, pair_encodings="hops, random_walks").double().eval()
    assert both.batch_spec.fields == plain.batch_spec.fields | {"dist", "bond"}
    assert both.batch_spec.max_dist == 253
    weights = projections(both)
    assert [weight.shape[1] for weight in weights] == [2, 16]
    for weight in weights:
        weight.zero_()
    both.load_state_dict(plain.state_dict(), strict=False)
    batch = make_batch(both, range(6))
    expected = plain(make_batch(plain, range(6)))
    # The sums of the maps have more terms, so the last bit may differ.
    torch.testing.assert_close(both(batch), expected, rtol=0, atol=1e-13)
    for weight in weights:
        before = both(batch)
        weight.normal_(std=9)
        assert not torch.equal(both(batch), before)


class LearnedHops(Hops):
    """Two learned numbers for each number of hops."""

    def __init__(self, vocabularies):
        super().__init__(vocabularies)
        self.table = torch.nn.Embedding(256, 2)

    def forward(self, dist):
        return self.table(dist.int())


@pytest.mark.parametrize(
    "arch, own",
    [
        ("grpe_tiny", {}),
        ("graphormer_slim", {}),
        ("cgt_zinc", {"attention_memory": "plain"}),
        ("cgt_zinc", {"attention_memory": "lean"}),
        ("cgt_zinc", {"attention_memory": "lean", "own_edge_encoding": True}),
        ("cgt_zinc", {"attention": "mono"}),
    ],
)
def test_an_encoding_may_have_weights(arch, own, registered):
    """Its gradient is that of differences; in float32, where CGT's compiled attention
    runs without it, outputs and gradients are those of float64."""
    register_pair_encoding("learned")(LearnedHops)
    options = {"pair_encodings": "learned, random_walks", "attention_dropout": 0.0}
    torch.manual_seed(0)
    model = tiny_model(arch, **options, **own).eval()
    batch = make_batch(model, range(6))

    def loss():
        return model(batch).square().sum()

    with torch.no_grad():
        compiled = model(batch)
    loss().backward()
    narrow = [weight.grad.clone() for weight in model.parameters()]
    assert all(gradient.isfinite().all() for gradient in narrow)
    model.double().zero_grad()
    (table,) = (m.table.weight for m in model.modules() if isinstance(m, LearnedHops))
    torch.testing.assert_close(compiled.double(), model(batch), rtol=1e-4, atol=1e-5)
    loss().backward()
    for weight, gradient in zip(model.parameters(), narrow, strict=True):
        scale = weight.grad.abs().max().item()
        assert (weight.grad - gradient).abs().max() <= 1e-3 * scale + 1e-6
    used = batch["dist"].unique()[:3].long()
    assert table.grad[used].abs().min() > 0
    for row in used.tolist():
        with torch.no_grad():
            table[row, 0] += 1e-5
            above = loss()
            table[row, 0] -= 2e-5
            difference = (above - loss()) / 2e-5
            table[row, 0] += 1e-5
        torch.testing.assert_close(difference, table.grad[row, 0], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "gps_zinc"])
def test_seeds_and_fields_of_graphs_reach_both_functions(arch, registered):
    seen = []

    @register_pair_encoding("drawn")
    class Drawn(PairEncoding):
        fields, num_features, random = ("node_mask",), 1, True

        def forward(self, mask, seed):
            seen.append((mask, seed))
            return mask[:, None, :, None] & mask[..., None, None]

        def hidden(self, numbers, *arguments):
            seen.append(arguments)
            return numbers

    model = tiny_model(arch, pair_encodings="drawn")
    batch = make_batch(model, range(6)) | {"seed": torch.arange(6)}
    model(batch)
    for mask, seed in seen:
        assert mask is batch["node_mask"] and seed is batch["seed"]
    assert len(seen) == 2


def test_a_cell_that_is_run_again_replaces_its_encoding(registered):
    for number in range(2):

        class Cell(PairEncoding):
            fields, num_features = (), 1 + number

        register_pair_encoding("cell")(Cell)
        model = tiny_model("grpe_tiny", pair_encodings="cell")
        (term,) = model.encoder.pair_terms
        assert type(term.encoding) is Cell


def test_what_is_wrong_is_said(registered):
    with pytest.raises(ValueError, match="'random_walks' is already registered"):
        register_pair_encoding("random_walks")(PairEncoding)
    for name, make in (("partial", partial), ("lambda", lambda f: lambda v: f(v))):
        register_pair_encoding(name)(make(PairEncoding))
        with pytest.raises(ValueError, match=f"'{name}' is already registered"):
            register_pair_encoding(name)(make(PairEncoding))
    with pytest.raises(ValueError, match="one batch cannot have max_hop 5 and 4"):
        joined_options({"max_hop": 5}, {"max_dist": 9}, {"max_hop": 4})
