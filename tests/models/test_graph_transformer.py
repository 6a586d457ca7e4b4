"""GT's presets and options."""

import pytest
import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from support.architectures import OGB, SCHEMA, TARGETS, TINY, make_batch, num_weights

MOLECULES, TARGET = FeatureSchema(1, [28], [4]), TargetSchema.of(["y"])


def communities(num_values, num_classes):
    schema = FeatureSchema(1, [num_values], [])
    kind = {"kind": "multiclass", "level": "node", "num_classes": num_classes}
    return schema, TargetSchema.of(["class"], **kind)


PATTERN, CLUSTER = communities(3, 2), communities(7, 6)
FULL = {"full_graph": True}


@pytest.mark.parametrize(
    "arch, data, options, expected",
    [
        # Tables 1 and 3
        ("gt_zinc", (MOLECULES, TARGET), {}, 588929),
        ("gt_zinc", (MOLECULES, TARGET), {"norm": "layer"}, 588929),
        ("gt_zinc", (MOLECULES, TARGET), {"node_encodings": "none"}, 588353),
        ("gt_zinc", (MOLECULES, TARGET), {"node_encodings": "degrees:37:0"}, 590721),
        ("gt_zinc", (MOLECULES, TARGET), FULL, 588929),
        ("gt_zinc", (MOLECULES, TARGET), {"node_encodings": "none", **FULL}, 588353),
        ("gt_sbm", PATTERN, {}, 522982),
        ("gt_sbm", PATTERN, {"node_encodings": "none"}, 522742),
        ("gt_sbm", PATTERN, {"node_encodings": "degrees:100:0"}, 530742),
        ("gt_sbm", PATTERN, FULL, 522982),
        ("gt_sbm", CLUSTER, {"node_encodings": "laplacian:10"}, 524026),
        ("gt_sbm", CLUSTER, {"node_encodings": "none", "norm": "layer"}, 523146),
        ("gt_sbm", CLUSTER, {"node_encodings": "degrees:100:0"}, 531146),
        # the 83.2M and 0.6M of Table 1 of Ying et al. 2021
        pytest.param("gt_wide", (OGB, TARGET), {}, 83215105, marks=pytest.mark.long),
        ("gt_zinc", (OGB, TARGET), {}, 598849),
    ],
)
def test_numbers_of_weights(arch, data, options, expected):
    assert num_weights(arch, *data, **options) == expected


def test_presets():
    for arch, heads, vectors in (
        ("gt_zinc", 8, 8),
        ("gt_sbm", 8, 2),
        ("gt_wide", 8, 4),
    ):
        model = build_model(arch, MOLECULES, TARGET)
        assert len(model.encoder.layers) == 10
        assert model.encoder.layers[0].scores.num_heads == heads
        assert model.batch_spec.lap_pe_dim == vectors


@pytest.mark.parametrize(
    "options, field",
    [
        ({"node_encodings": "degrees:37:0"}, "in_degree"),
        ({"node_encodings": "wl"}, "wl_role"),
        ({"node_encodings": "laplacian"}, "lap_pe"),
        ({"node_encodings": "none"}, None),
    ],
)
@pytest.mark.parametrize(
    "graph", [{}, {"full_graph": True}, {"no_edge_features": True}]
)
@torch.no_grad()
def test_fields(options, field, graph):
    torch.manual_seed(0)
    model = build_model("gt_zinc", SCHEMA, TARGETS, **TINY, **options, **graph)
    fields = {"x", "node_mask", "node_graph"} | ({field} if field else set())
    if not graph.get("full_graph"):
        fields.add("edge_index")
    if not graph:
        fields.add("edge_bond")
    assert model.batch_spec.fields == fields
    model.double().eval()
    batch = make_batch(model, range(6))
    out = model(batch)
    if field:
        batch[field] = torch.zeros_like(batch[field])
        assert (model(batch) - out).abs().max() > 1e-4
