"""The task is2re: the released command line, its log, and data of other tasks."""

import re
import shlex

import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin import hub
from support.lmdb_files import golden_entries, write_lmdb
from support.training import TINY, USER_DIR, error, logged, run  # noqa: F401

pytestmark = pytest.mark.usefixtures("fresh_fairseq")

# examples/oc20/oc20.sh of the released code, without its save-dir.
RELEASED = """--valid-subset val_id,val_ood_ads,val_ood_cat,val_ood_both
    --best-checkpoint-metric loss --num-workers 0 --ddp-backend=c10d
    --task is2re --criterion mae_deltapos --arch graphormer3d_base
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --clip-norm 5
    --lr-scheduler polynomial_decay --lr 3e-4 --warmup-updates 10000
    --total-num-update 1000000 --batch-size 2 --dropout 0.0 --attention-dropout 0.1
    --weight-decay 0.001 --update-freq 1 --seed 1 --fp16 --fp16-init-scale 4
    --fp16-scale-window 256 --embed-dim 768 --ffn-embed-dim 768 --attention-heads 48
    --max-update 1000000 --log-interval 100 --log-format simple
    --save-interval-updates 5000 --validate-interval-updates 2500
    --keep-interval-updates 30 --no-epoch-checkpoints --layers 12 --blocks 4
    --required-batch-size-multiple 1 --node-loss-weight 15"""
SMALL = """--layers 1 --blocks 2 --embed-dim 16 --ffn-embed-dim 16 --attention-heads 2
    --cpu --fp16-no-flatten-grads --log-format json --max-epoch 2"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path / "root"))
    entries = golden_entries()
    entries[0] = {n: entries[0][n] for n in ("pos", "cell", "atomic_numbers", "tags")}
    return write_lmdb(tmp_path / "is2re", entries)


def test_the_released_command_line(folder, tmp_path, monkeypatch):
    words = ["--user-dir", USER_DIR, str(folder), *shlex.split(f"{RELEASED} {SMALL}")]
    words += ["--save-dir", str(tmp_path / "ckpts"), "--tensorboard-logdir"]
    log = run(fairseq_train.cli_main, [*words, str(tmp_path / "tsbs")], monkeypatch)
    for split in ("val_id", "val_ood_ads", "val_ood_cat", "val_ood_both"):
        last = logged(log, split)[-1]
        for metric in ("loss", "mae", "ewt", "displacement_mae"):
            assert 0 <= last[f"{split}_{metric}"] < 10
        assert last[f"{split}_mae"] > 0.1 and last[f"{split}_displacement_mae"] > 0.01
    trained = logged(log, "train")[-1]
    assert 14.9 < trained["train_node_loss_weight"] < 15

    words = ["--user-dir", USER_DIR, str(folder), "--task", "is2re", "--cpu"]
    words += ["--path", str(tmp_path / "ckpts/checkpoint_best.pt")]
    words += ["--valid-subset", "val_ood_both", "--log-format", "simple"]
    words += ["--results-path", str(tmp_path / "out.csv"), "--batch-size", "5"]
    validated = run(fairseq_validate.cli_main, words, monkeypatch)
    mae = float(re.search(r" mae ([\d.]+)", validated)[1])
    assert mae == pytest.approx(last["val_ood_both_mae"], rel=1e-3)


def test_data_of_other_tasks(folder, tmp_path, monkeypatch, error):  # noqa: F811
    common = f"--user-dir {USER_DIR} --optimizer adam --lr 1e-3 --cpu --batch-size 2"

    def refused(words):
        words = shlex.split(f"{common} {words} --save-dir {tmp_path / 'ckpts'}")
        return error(run, fairseq_train.cli_main, words, monkeypatch)

    graph = f"--task graph_prediction --criterion l1_loss {TINY} --dataset-name"
    assert "images of periodic cells; use --task is2re" in refused(f"{graph} {folder}")
    energies = "--task is2re --arch graphormer3d_small --criterion"
    assert "use --task is2re" in refused(f"{graph} nci --criterion mae_deltapos")
    line = refused(f"nci {energies} mae_deltapos --layers 1")
    assert "no displacement; use --task graph_prediction" in line
    line = refused(f"{energies} mae_deltapos --layers 1")
    assert "give --dataset-name" in line
    line = refused(f"{folder} {energies} l1_loss --layers 1")
    assert "--criterion mae_deltapos" in line
    line = refused(f"{folder} --task is2re --criterion mae_deltapos {TINY}")
    assert "use --arch graphormer3d_base" in line


def test_molecules_without_a_cell(tmp_path, monkeypatch):
    """All tags are 1, and the weights have no head of vectors, which had no gradient."""
    rows = [f"{'C' * n}O,{n}" for n in range(1, 13)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y", *rows]))
    words = f"""--user-dir {USER_DIR} --task graph_prediction --criterion l1_loss
        --dataset-name {tmp_path / "t.csv"} --data-root {tmp_path} --positions rdkit
        --arch graphormer3d_small {SMALL} --optimizer adam --lr 1e-3 --batch-size 4
        --save-dir {tmp_path / "ckpts"}"""
    words = [word for word in words.split() if "fp16" not in word]
    log = run(fairseq_train.cli_main, words, monkeypatch)
    assert 0 < logged(log, "valid")[-1]["valid_mae"] < 20
    predictor = hub.load(tmp_path / "ckpts/checkpoint_best.pt")
    assert predictor.model.vector_head is None
    values = predictor.predict(["CCO", "CCCCO", "OCC"])
    assert values[0] == pytest.approx(values[2], abs=1e-5)
    assert abs(values[0] - values[1]) > 1e-4
