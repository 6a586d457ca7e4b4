"""Prediction with matrix products in bfloat16, compared with float32.

    python examples/speed/bfloat16.py --arch graphormer_base --csv pcqm4mv2.csv.gz

A model predicts the same molecules in both ways, in turn. Its weights are random, or those
of a checkpoint. Prints molecules per second of CPU time, the fastest of the rounds, and the
error of bfloat16 next to the standard deviation of the predictions.
"""

from functools import partial

import molecules
import numpy as np
import torch
from measuring import in_turn

from graphormer_plugin import hub
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser, feature_dims
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model


def load(arch: str, checkpoint: str | None) -> hub.Predictor:
    """A model with its own weights, or with random weights."""
    if checkpoint is not None:
        return hub.load(checkpoint)
    torch.manual_seed(1)
    schema, targets = FeatureSchema(9, *feature_dims()), TargetSchema.of(["target"])
    model = build_model(arch, schema, targets)
    return hub.Predictor([hub.Member(model, schema, targets, OGBFeaturiser())])


def main() -> None:
    parser = molecules.parser(__doc__, 512, 3)
    parser.add_argument("--arch", default="graphormer_base")
    parser.add_argument("--checkpoint", help="instead of --arch")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    smiles = molecules.read_smiles(arguments)
    predictors = {
        "float32": load(arguments.arch, arguments.checkpoint),
        "bfloat16": load(arguments.arch, arguments.checkpoint).bfloat16(),
    }
    ways = {name: partial(one.predict, smiles) for name, one in predictors.items()}
    seconds, values = in_turn(ways, arguments.rounds)
    for name, times in seconds.items():
        print(f"{name:8} {len(smiles) / min(times):7,.0f} molecules/s of CPU time")
    print(f"ratio {min(seconds['float32']) / min(seconds['bfloat16']):.2f}")
    error = np.abs(values["bfloat16"] - values["float32"])
    spread = values["float32"].std(0)
    print(
        f"error over the standard deviation of the predictions: mean "
        f"{(error / spread).mean():.1e}, largest {(error / spread).max():.1e}"
    )


if __name__ == "__main__":
    main()
