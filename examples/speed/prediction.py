"""Where does the CPU time of a prediction with a head go?

    python examples/speed/prediction.py activity-model --csv molhiv.csv.gz

Prints milliseconds of CPU time per molecule and step, on one thread, the minimum over
the rounds. `graphormer-predict` also reads and writes tables and looks for unseen
elements.
"""

import sys
import time
from pathlib import Path

import torch
from molecules import parser, read_smiles

from graphormer_plugin import hub
from graphormer_plugin.cli import command
from graphormer_plugin.workbench.predictions.table_run import BLOCK_ROWS


@command
def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, molecules=2000, rounds=3)
    options.add_argument("folder", type=Path, help="of graphormer-train, with a head")
    args = options.parse_args(arguments)
    torch.set_num_threads(1)
    predictor = hub.load(str(args.folder))
    member = predictor.members[0]
    head, smiles = member.head, read_smiles(args)
    least: dict[str, float] = {}
    for _ in range(args.rounds):
        spent = dict.fromkeys(("graphs", "network", *head.molecule_blocks, "head"), 0.0)
        for first in range(0, len(smiles), BLOCK_ROWS):
            raw, clock = {}, time.process_time()
            molecules = predictor.read(smiles[first : first + BLOCK_ROWS])
            for step in spent:
                if step == "network":
                    raw["vectors"] = predictor.embed(molecules, head.layers)
                elif step == "head":
                    head.predict_features(raw)
                elif step != "graphs":
                    raw[step] = molecules.features(step)
                spent[step] += time.process_time() - clock
                clock = time.process_time()
        least = {step: min(least.get(step, x), x) for step, x in spent.items()}
    least["sum"] = sum(least.values())
    for step, seconds in least.items():
        print(f"{step:12} {1000 * seconds / len(smiles):.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
