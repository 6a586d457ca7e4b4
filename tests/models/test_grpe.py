"""Sizes of the GRPE presets against Table 1 of Park et al. 2022."""

import pytest

from graphormer_plugin.models import ARCHITECTURES, build_model
from support.architectures import GRAPHS, OGB, ZINC, num_weights


# OGB: nine atom columns in tables of 512 rows each, as in the published code. That
# numbers the bonds 0..63; here 60 types are the true number of combinations.
# ZINC: 28 atom types, 4 bond types. The paper does not state the tables behind its
# counts: the tiny model comes out at 105,985, the small one at 476,801, where the
# paper's 489k would be 51 more rows in each of the query, key and value tables.
@pytest.mark.parametrize(
    "arch, schema, table_size, paper, tolerance",
    [
        ("grpe_tiny", ZINC, 0, 106e3, 0.03),
        ("grpe_small", ZINC, 0, 489e3, 0.03),
        ("grpe_standard", OGB, 512, 46.2e6, 0.01),
        pytest.param("grpe_large", OGB, 512, 118.3e6, 0.01, marks=pytest.mark.long),
    ],
)
def test_size(arch, schema, table_size, paper, tolerance):
    count = num_weights(arch, schema, GRAPHS, node_table_size=table_size)
    assert count == pytest.approx(paper, rel=tolerance)


def test_sizes_of_table_1():
    sizes = {}
    for size in ("tiny", "small", "standard", "large"):
        preset = ARCHITECTURES[f"grpe_{size}"].preset
        sizes[size] = tuple(preset.values())
        names = "layers embed_dim ffn_embed_dim attention_heads".split()
        assert list(preset) == [f"encoder_{name}" for name in names]
    assert sizes == {
        "tiny": (4, 64, 64, 8),
        "small": (12, 80, 80, 8),
        "standard": (12, 768, 768, 32),
        "large": (18, 1024, 1024, 32),
    }


def test_independent_encodings_give_every_layer_its_own():
    shared, own = (
        build_model("grpe_small", ZINC, GRAPHS, independent_encodings=independent)
        for independent in (False, True)
    )
    tables = sum(p.numel() for p in shared.encoder.encodings.parameters())
    more = sum(p.numel() for p in own.parameters())
    more -= sum(p.numel() for p in shared.parameters())
    assert more == 11 * tables
