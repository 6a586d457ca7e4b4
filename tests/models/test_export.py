"""torch.export and ONNX: the same numbers for batches of any size."""

import pytest
import torch
from torch.export import Dim, export

from support.architectures import SMALLEST, make_batch, tiny_model

OPTIONS = {
    "cgt_zinc": {"rings": "additive", "attention_memory": "lean"},
    "graphormer_slim": {"edge_type": "aggregation", "no_virtual_node": True},
}
CASES = [(arch, OPTIONS.get(arch, {})) for arch in SMALLEST]
CASES.append(("gt_zinc", {"no_edge_features": True}))
GAUSSIANS = {"pair_encodings": "gaussians", "gaussian_types": "sum"}
GAUSSIANS["gaussian_node_factor"] = 1.0
CASES += [(arch, GAUSSIANS) for arch in ("grpe_tiny", "graphormer_slim", "cgt_zinc")]
CASES.append(("gt_zinc", {"length_kernels": 8}))
CASES.append(("exphormer_pattern", {}))
CASES.append(("graphormer3d_small", {}))
CASES = [
    # examples/models/README.md, which test_readme.py runs, exports grpe_tiny.
    pytest.param(case, marks=pytest.mark.slow)
    for case in CASES
]
OTHERS = ([0, 1, 2, 3, 4, 5], [3], [1], [1, 2])  # graph 1 is a single node


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0])
def exported(request):
    """A model, an example of a batch, and the program of `torch.export`."""
    torch.manual_seed(0)
    arch, options = request.param
    model = tiny_model(arch, **options).eval()
    batch = make_batch(model, [0, 2, 3])
    sizes = {name: [Dim.AUTO] * field.dim() for name, field in batch.items()}
    return model, batch, export(model, (batch,), dynamic_shapes=(sizes,))


def test_program_of_torch_export(exported):
    model, _, program = exported
    run = program.module()
    for ids in OTHERS:
        batch = make_batch(model, ids)
        torch.testing.assert_close(run(batch), model(batch), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_onnx(exported):
    pytest.importorskip("onnxscript", reason="pip install '.[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="pip install '.[onnx]'")
    model, batch, program = exported
    onnx = torch.onnx.export(program, input_names=list(batch), dynamo=True)
    session = runtime.InferenceSession(onnx.model_proto.SerializeToString())
    for ids in OTHERS:
        batch = make_batch(model, ids)
        fields = {name: field.numpy() for name, field in batch.items()}
        (output,) = session.run(None, fields)
        output = torch.from_numpy(output)
        torch.testing.assert_close(output, model(batch), atol=1e-5, rtol=0)
