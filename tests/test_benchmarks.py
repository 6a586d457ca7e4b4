"""The benchmarks through fairseq's real commands, on a few graphs."""

import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate
from test_end_to_end import TINY, USER_DIR, fresh_fairseq, logged, run

__all__ = ["fresh_fairseq"]  # a fixture that every test here uses


@pytest.fixture
def train(tmp_path, monkeypatch):
    def run_training(name, *more):
        arguments = f"""
            --user-dir {USER_DIR} --data-root {tmp_path} --prepare-workers 1
            --num-workers 0 --optimizer adam --lr 1e-2 --max-epoch 2
            --save-dir {tmp_path / name} --log-format json --no-progress-bar --cpu
        """
        arguments = [*arguments.split(), *(str(value) for value in more)]
        return run(fairseq_train.cli_main, arguments, monkeypatch)

    return run_training


@pytest.fixture
def validate(monkeypatch):
    def run_validation(path, task, *more):
        arguments = ["--user-dir", USER_DIR, "--task", task, "--path", str(path)]
        arguments += ["--batch-size", "5", "--log-format", "json", "--num-workers", "0"]
        arguments += [str(value) for value in more]
        return run(fairseq_validate.cli_main, arguments, monkeypatch)

    return run_validation


def test_cluster(train, validate, tmp_path):
    text = train(
        "cluster",
        *"--task node_prediction --dataset-name cluster".split(),
        *"--dataset-source generated:24 --criterion weighted_cross_entropy".split(),
        *f"{TINY} --batch-size 8 --batch-size-valid 2 --max-epoch 3".split(),
        *"--best-checkpoint-metric weighted_accuracy".split(),
        "--maximize-best-checkpoint-metric",
    )
    trained, valid = logged(text, "train"), logged(text, "valid")
    assert trained[-1]["train_loss"] < trained[0]["train_loss"]
    best = max(log["valid_weighted_accuracy"] for log in valid)
    checkpoint = tmp_path / "cluster" / "checkpoint_best.pt"
    text = validate(checkpoint, "node_prediction", "--valid-subset", "valid,test")
    (again,) = logged(text, "valid")
    assert again["valid_weighted_accuracy"] == pytest.approx(best, abs=1e-4)
    for name in ("accuracy", "weighted_accuracy", "weighted_accuracy_batch"):
        assert 0.0 < logged(text, "test")[0][f"test_{name}"] < 1.0


def test_labels_of_nodes_need_their_task(train, capsys):
    with pytest.raises(SystemExit):
        train(
            "wrong",
            *"--task graph_prediction --dataset-name pattern".split(),
            *f"--dataset-source generated:2 --criterion l1_loss {TINY}".split(),
            *"--batch-size 8".split(),
        )
    assert "has labels of nodes; use --task node_prediction" in capsys.readouterr().err
