"""Golden files: what the published implementations compute. See tests/golden/README.md.

    python tests/support/golden.py FOLDER

writes those of tests/golden out of the full files in a folder.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

GOLDEN = Path(__file__).parents[1] / "golden"
# Tensors of the full files that follow from others, or that the test does not read.
LEFT_OUT = {
    "csa_attention_per_layer_edge": ["e_att", "e_value"],
    "csa_attention_shared_edge": ["e"],
}


def drawn(shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Weights as the published models got them: 0.2 N(0, 1) in float64 from seed 0, one
    tensor after the other; those of normalisations have 1 added."""
    generator = torch.Generator().manual_seed(0)
    state = {}
    for name, shape in shapes.items():
        value = 0.2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        if len(shape) == 1 and name.endswith(".weight"):
            value = 1 + value
        state[name] = value.numpy()
    return state


def load_golden(name: str, folder: Path = GOLDEN) -> dict[str, np.ndarray]:
    """Arrays of a golden file by name, the weights under `state/<parameter>`."""
    with np.load(folder / f"{name}.npz") as archive:
        arrays = {key: archive[key] for key in archive.files}
    if "drawn" in arrays:
        state = drawn(json.loads(str(arrays.pop("drawn"))))
        probe = arrays.pop("probe")
        assert np.allclose([value.sum() for value in state.values()], probe), (
            f"torch {torch.__version__} draws other numbers from seed 0 than the torch "
            "that these weights are from, see tests/golden/README.md"
        )
        arrays |= {f"state/{name}": value for name, value in state.items()}
    return arrays


def golden_of(request, name: str) -> dict[str, np.ndarray]:
    """`load_golden`; the repository has one file of each architecture, others lie beside the
    shared data."""
    if (GOLDEN / f"{name}.npz").is_file():
        return load_golden(name)
    return load_golden(name, request.getfixturevalue("shared_data").parent / "golden")


def golden_state(
    arrays: dict[str, np.ndarray], prefix: str = "state/"
) -> dict[str, torch.Tensor]:
    """Only the weights, as a checkpoint has them, or what else has a prefix."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {n.removeprefix(prefix): torch.as_tensor(arrays[n]) for n in names}


def published_graphormer():
    """Weights of a small Graphormer v2 with pre-LayerNorm and two outputs."""
    state = golden_state(load_golden("graphormer_preln_multi_hop"))
    return {name: value.float() for name, value in state.items()}


def write_huggingface(
    folder: Path,
    weights: str = "pytorch_model.bin",
    archive: dict[str, np.ndarray] | None = None,
    **changed: object,
) -> Path:
    """A folder of a golden file, by default `hf_graphormer_regression`, as transformers'
    save_pretrained writes it, with options of its config changed."""
    archive = archive or load_golden("hf_graphormer_regression")
    folder.mkdir(parents=True)
    config = json.loads(str(archive["config"])) | changed
    (folder / "config.json").write_text(json.dumps(config))
    save = torch.save if weights.endswith(".bin") else save_file
    save(golden_state(archive), folder / weights)
    return folder


def trim(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a full file in fewer bytes, without loss."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name in LEFT_OUT.get(path.stem, ()):
        del arrays[name]
    state = {name: value.numpy() for name, value in golden_state(arrays).items()}
    same = drawn({name: list(value.shape) for name, value in state.items()})
    if all(np.array_equal(value, same[name]) for name, value in state.items()):
        arrays = {n: a for n, a in arrays.items() if not n.startswith("state/")}
        shapes = {name: value.shape for name, value in state.items()}
        arrays["drawn"] = np.array(json.dumps(shapes))
        arrays["probe"] = np.array([value.sum() for value in state.values()])
    for name, value in arrays.items():
        if value.dtype == np.float64 and (value.astype(np.float32) == value).all():
            arrays[name] = value.astype(np.float32)
    return arrays


def main(folder: str) -> None:
    for path in sorted(Path(folder).glob("*.npz")):
        np.savez_compressed(GOLDEN / path.name, **trim(path))
        print(f"{(GOLDEN / path.name).stat().st_size:>8} {path.name}")


if __name__ == "__main__":
    main(sys.argv[1])
