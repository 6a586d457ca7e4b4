"""Encodings of all layers, or of each."""

from graphormer_plugin.models import build_model
from support.architectures import GRAPHS, ZINC


def test_independent_encodings_give_every_layer_its_own():
    shared, own = (
        build_model("grpe_small", ZINC, GRAPHS, independent_encodings=independent)
        for independent in (False, True)
    )
    tables = sum(p.numel() for p in shared.encoder.encodings.parameters())
    more = sum(p.numel() for p in own.parameters())
    more -= sum(p.numel() for p in shared.parameters())
    assert more == 11 * tables
