"""The benchmarks through fairseq's real commands, on a few graphs."""

import math

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate
from sklearn.metrics import roc_auc_score

from support.benchmark_files import SMILES, write_ogbg, write_pcqm
from support.tables import rows
from support.training import TINY, USER_DIR, logged, on_two_processes, run, weights

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh_fairseq")]


def words_of(folder, *more):
    common = f"--user-dir {USER_DIR} --data-root {folder} --num-workers 0"
    words = " ".join(map(str, [common, "--log-format json", *more]))
    return words.split()


@pytest.fixture
def train(tmp_path, monkeypatch):
    def train(name, *more):
        words = f"""--prepare-workers 1 --cpu --optimizer adam --lr 1e-2 --max-epoch 2
            --batch-size 8 {TINY} --save-dir {tmp_path / name} --no-progress-bar"""
        words = words_of(tmp_path, words, *more)
        return run(fairseq_train.cli_main, words, monkeypatch)

    return train


@pytest.fixture
def validate(tmp_path, monkeypatch):
    def validate(path, task, *more):
        words = words_of(tmp_path, f"--task {task} --path {path} --batch-size 5", *more)
        return run(fairseq_validate.cli_main, words, monkeypatch)

    return validate


def same_on_two_processes(validate, checkpoint, task, folder, batch_size):
    """fairseq-validate says and writes what it does on one."""
    more = f"--valid-subset valid,test --batch-size {batch_size} --results-path"
    one = validate(checkpoint, task, more, folder / "one")
    words = words_of(folder, f"--task {task} --path {checkpoint} {more} {folder}/two")
    two = on_two_processes("fairseq_cli.validate", *words)
    for split in ("valid", "test"):
        (alone,), (together,) = logged(one, split), logged(two, split)
        del alone[f"{split}_wps"], together[f"{split}_wps"]
        assert f"{split}_loss" in alone
        assert together == pytest.approx(alone, rel=1e-5)
        files = [folder / name / f"predictions_{split}.csv" for name in ("one", "two")]
        table, other = map(rows, files)
        assert table == other and len(table) > 1


def test_cluster(train, validate, tmp_path):
    """Validated on two processes of which one has no batch."""
    text = train(
        "cluster",
        "--task node_prediction --dataset-name cluster --dataset-source generated:24",
        "--criterion weighted_cross_entropy --max-epoch 3",
        "--batch-size-valid 2 --best-checkpoint-metric weighted_accuracy",
    )
    trained, valid = logged(text, "train"), logged(text, "valid")
    assert trained[-1]["train_loss"] < trained[0]["train_loss"]
    best = max(log["valid_weighted_accuracy"] for log in valid)
    checkpoint = tmp_path / "cluster" / "checkpoint_best.pt"
    text = validate(checkpoint, "node_prediction", "--valid-subset valid,test")
    (again,) = logged(text, "valid")
    assert again["valid_weighted_accuracy"] == pytest.approx(best, abs=1e-4)
    same_on_two_processes(validate, checkpoint, "node_prediction", tmp_path, 8)


def test_pcqm4mv2_and_its_hidden_labels(train, validate, tmp_path):
    write_pcqm(tmp_path)
    train(
        "pcqm",
        "--task graph_prediction --dataset-name pcqm4mv2 --criterion l1_loss",
        "--dataset-source ogb --num-classes 1",
    )
    # the command does not name the dataset: the checkpoint knows
    checkpoint, out = tmp_path / "pcqm/checkpoint_last.pt", tmp_path / "out"
    words = f"--valid-subset valid,test-dev --results-path {out}"
    text = validate(checkpoint, "graph_prediction", words)
    (valid,), (hidden,) = logged(text, "valid"), logged(text, "test-dev")
    assert "split 'test-dev' of pcqm4mv2 has no labels" in text
    assert math.isnan(hidden["test-dev_mae"])
    table = rows(out / "predictions_valid.csv")
    assert [int(row["row"]) for row in table] == [7, 17, 27, 37, 47]
    errors = [
        abs(float(row["homolumogap"]) - float(row["homolumogap_target"]))
        for row in table
    ]
    assert valid["valid_mae"] == pytest.approx(sum(errors) / 5, rel=1e-4)
    table = rows(out / "predictions_test-dev.csv")
    assert [int(row["row"]) for row in table] == [8, 18, 28, 38]
    assert [row["homolumogap_target"] for row in table] == [""] * 4
    with np.load(out / "y_pred_pcqm4m-v2_test-dev.npz") as file:
        predicted = [float(row["homolumogap"]) for row in table]
        assert file["y_pred"].tolist() == pytest.approx(predicted, rel=1e-6)


def test_molhiv_is_chosen_by_roc_auc(train, validate, tmp_path):
    """Validated on two processes, which have three batches of five graphs."""
    labels = np.array([[float("O" in smiles)] for smiles in SMILES])
    labels[4] = np.nan
    write_ogbg(tmp_path, "ogbg-molhiv", SMILES, labels)
    molhiv = """--task graph_prediction --dataset-name ogbg-molhiv --criterion
        binary_logloss --max-epoch 3 --batch-size-valid 1
        --best-checkpoint-metric roc_auc --maximize-best-checkpoint-metric"""

    text = train("whole", molhiv)
    best = max(log["valid_roc_auc"] for log in logged(text, "valid"))
    assert "is undefined" not in text  # no warning for single batches
    checkpoint, out = tmp_path / "whole/checkpoint_best.pt", tmp_path / "out"
    saved = weights(checkpoint)["extra_state"]["val_loss"]
    assert saved == pytest.approx(best, abs=1e-3)
    more = f"--valid-subset valid,test --results-path {out}"
    text = validate(checkpoint, "graph_prediction", more)
    for split in ("valid", "test"):
        table = rows(out / f"predictions_{split}.csv")
        label = [int(row["HIV_active_target"]) for row in table]
        score = [float(row["HIV_active"]) for row in table]
        (log,) = logged(text, split)
        expected = roc_auc_score(label, score)
        assert log[f"{split}_roc_auc"] == pytest.approx(expected, abs=1e-3)
        assert 0.0 < log[f"{split}_ap"] <= 1.0
    assert logged(text, "valid")[0]["valid_roc_auc"] == pytest.approx(best, abs=1e-3)
    same_on_two_processes(validate, checkpoint, "graph_prediction", tmp_path, 2)
