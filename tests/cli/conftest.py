"""Trained models for the commands that use them, and a table of many molecules."""

import pytest
from fairseq_cli import train as fairseq_train

from support.training import USER_DIR, run_once


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Function: an architecture to a checkpoint after one update."""
    folder = tmp_path_factory.mktemp("trained")
    lines = [f"{'C' * i}O,{i}" for i in range(1, 41)]
    (folder / "alcohols.csv").write_text("\n".join(["smiles,gap", *lines]) + "\n")
    done = {}

    def train(arch, *more):
        key = (arch, *more)
        if key in done:
            return done[key]
        save_dir = folder / f"{arch}{len(done)}"
        arguments = f"""--user-dir {USER_DIR} --task graph_prediction --arch {arch}
            --dataset-name {folder}/alcohols.csv --data-root {folder} --target-unit eV
            --prepare-workers 1 --num-workers 0 --criterion l1_loss --optimizer adam
            --encoder-layers 2 --encoder-embed-dim 16
            --batch-size 8 --max-update 1 --disable-validation --no-epoch-checkpoints
            --save-dir {save_dir} --no-progress-bar --cpu"""
        if arch != "gin":
            more += ("--encoder-attention-heads", "2")
        run_once(fairseq_train.cli_main, [*arguments.split(), *more])
        done[key] = str(save_dir / "checkpoint_last.pt")
        return done[key]

    return train


@pytest.fixture
def refused(capfd):
    """Function: main and arguments of a command that ends with code 2; its one line."""

    def refused(main, *arguments):
        capfd.readouterr()
        assert main([*map(str, arguments)]) == 2
        out, line = capfd.readouterr()
        assert out == "" and line.startswith("error: ") and line.count("\n") == 1
        return line

    return refused


@pytest.fixture
def many(tmp_path):
    """3 blocks of rows, with some molecules that cannot be read."""
    lines = ["C1CC" if n % 50 == 7 else f"{'C' * (n % 23 + 1)}O" for n in range(1100)]
    path = tmp_path / "many.csv"
    path.write_text("\n".join(["smiles", *lines]) + "\n")
    return str(path)
