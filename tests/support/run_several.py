"""One of several processes that train one model after another, in one process group.

    python run_several.py RANK WORLD_SIZE --distributed-init-method URL RUNS.json

RUNS.json: name -> arguments of fairseq-train. The first process writes what was logged
into RUNS.json.WORLD_SIZE, name -> text.
"""

import json
import sys
from pathlib import Path

import torch
from fairseq_cli import train

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.training import run_once


def main(rank: str, world_size: str, *meeting_place: str) -> None:
    *meeting_place, path = meeting_place
    torch.set_num_threads(1)
    arguments = "--distributed-backend gloo --distributed-no-spawn "
    arguments += f"--distributed-world-size {world_size} --distributed-rank {rank}"
    texts = {}
    for name, own in json.loads(Path(path).read_text()).items():
        more = [*arguments.split(), *meeting_place] if int(world_size) > 1 else []
        texts[name] = run_once(train.cli_main, [*own, *more])
    if rank == "0":
        Path(f"{path}.{world_size}").write_text(json.dumps(texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
