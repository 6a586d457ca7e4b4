"""Prediction with GRPE's attention compiled, compared with operations of torch.

    python examples/speed/predict_step.py --arch grpe_small

The two take turns on the same batches of real molecules, sorted by size as a prediction
sorts them. Prints molecules per second of CPU time, the fastest of the rounds, and the
largest difference between both outputs.
"""

from functools import partial

import molecules
import numpy as np
import torch
from measuring import in_turn

from graphormer_plugin.data.chunk import FeaturisedRows
from graphormer_plugin.data.featurise import featurise
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.smiles import feature_dims, parse_any_smiles
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.models import build_model
from graphormer_plugin.modules import compiled_attention

COMPILED, TORCH = "compiled attention", "torch's operations"


def main() -> None:
    parser = molecules.parser(__doc__, 2048, 5)
    parser.add_argument("--arch", default="grpe_small")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    smiles = molecules.read_smiles(arguments)
    rows = featurise(smiles, parse_any_smiles, workers=0, progress=False)
    graphs = FeaturisedRows.joined(list(rows)).chunk
    node_dims, bond_dims = feature_dims()
    schema = FeatureSchema(len(node_dims), node_dims=node_dims, bond_dims=bond_dims)
    targets = TargetSchema(["target"])
    model = build_model(arguments.arch, schema, targets)
    predictor = Predictor(model, schema, targets)

    def predict(compiled: bool) -> np.ndarray:
        compiled_attention.HAS_ATTENTION = compiled
        return predictor.predict(graphs)

    ways = {TORCH: partial(predict, False), COMPILED: partial(predict, True)}
    seconds, values = in_turn(ways, arguments.rounds)
    for name, times in seconds.items():
        print(f"{name:19} {len(graphs) / min(times):6,.0f} molecules/s of CPU time")
    print(f"ratio {min(seconds[TORCH]) / min(seconds[COMPILED]):.2f}")
    difference = np.abs(values[TORCH] - values[COMPILED]).max()
    print(f"largest difference {difference:.1e} at {np.abs(values[TORCH]).max():.1e}")


if __name__ == "__main__":
    main()
