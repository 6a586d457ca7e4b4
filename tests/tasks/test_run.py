"""What a whole run of fairseq lacks, repeats or would select wrongly, in one line."""

import logging
import re
import sys

import pytest
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import OPTIMIZER_REGISTRY, FairseqOptimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY, FairseqLRScheduler
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate
from omegaconf import OmegaConf

from graphormer_plugin.command_line import check_device, check_optimizer, check_texts
from graphormer_plugin.finetune.transfer import Pretrained
from graphormer_plugin.inference.checkpoint import Progress, read_checkpoint
from graphormer_plugin.tasks._errors import one_line_errors
from graphormer_plugin.tasks._run import (
    check_criterion,
    settle_metric,
    why_finished,
)
from support.training import TINY, USER_DIR

# ------------------------------------------------------- a finished training


def files(folder):
    """Content and time of every file."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    "limit, reason",
    [
        (("--max-update", 4), "4 updates, --max-update 4"),
        (("--max-epoch", 1), "1 epochs, --max-epoch 1"),
        (("--patience", 1, "--lr", 0), "1 validations without a better metric"),
    ],
)
def test_a_finished_training_changes_nothing(
    train, tmp_path, limit, reason, caplog, fresh_fairseq
):
    train("run", *limit)
    before = files(tmp_path / "run")
    fairseq_train.should_stop_early.num_runs = 0  # as in a new process
    with pytest.raises(SystemExit) as stop, caplog.at_level(logging.INFO):
        train("run", *limit)
    assert stop.value.code == 0
    assert f"this training is finished ({reason}" in caplog.text
    assert files(tmp_path / "run") == before


def test_a_raised_limit_trains_on(train, tmp_path, fresh_fairseq):
    train("run", "--max-update", 4)
    train("run", "--max-update", 5)
    assert read_checkpoint(tmp_path / "run" / "checkpoint_last.pt").updates == 5


def options(**changes):
    optimization = {"max_update": 0, "max_epoch": 0, "stop_time_hours": 0}
    checkpoint = {"patience": -1, "reset_optimizer": False, "reset_dataloader": False}
    for name, value in changes.items():
        (optimization if name in optimization else checkpoint)[name] = value
    return OmegaConf.create({"optimization": optimization, "checkpoint": checkpoint})


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, ""),
        ({"max_update": 101, "max_epoch": 6, "stop_time_hours": 3, "patience": 3}, ""),
        ({"max_update": 100}, "100 updates, --max-update 100"),
        ({"max_update": 100, "reset_optimizer": True}, ""),
        (
            {"max_update": 100, "reset_dataloader": True},
            "100 updates, --max-update 100",
        ),
        ({"max_epoch": 5}, "5 epochs, --max-epoch 5"),
        ({"max_epoch": 5, "reset_dataloader": True}, ""),
        ({"stop_time_hours": 1.5}, "2.00 hours, --stop-time-hours 1.5"),
        ({"patience": 2}, "2 validations without a better metric, --patience 2"),
    ],
)
def test_limits(changes, expected):
    start = Pretrained("last.pt", None, None, {}, progress=Progress(100, 6, 2.0, 2))
    assert why_finished(options(**changes), start) == expected


# ------------------------------------------------- the metric of the best checkpoint


def test_a_metric_that_should_rise(data, tmp_path, train, fresh_fairseq):
    path = tmp_path / "classes.csv"
    path.write_text(
        "smiles,y\n" + "".join(f"{'C' * n},{n % 2}\n" for n in range(1, 31))
    )
    train(
        "run",
        *("--dataset-name", path, "--target-columns", "y", "--target-kind", "binary"),
        *("--criterion", "binary_logloss", "--best-checkpoint-metric", "accuracy"),
        *("--max-epoch", 1, "--lr-scheduler", "reduce_lr_on_plateau"),
    )
    saved = read_checkpoint(tmp_path / "run" / "checkpoint_last.pt").state["cfg"]
    for group in ("checkpoint", "lr_scheduler"):
        assert saved[group]["maximize_best_checkpoint_metric"] is True


@pytest.mark.parametrize(
    "metric, message",
    [
        (
            ["roc_auc"],
            "--best-checkpoint-metric roc_auc: l1_loss has loss, mae, mae_length, "
            "mae_carbons, rmse, rmse_length, rmse_carbons",
        ),
        (
            ["mae", "--maximize-best-checkpoint-metric"],
            "mae is better when it is smaller",
        ),
    ],
)
def test_a_metric_that_cannot_be_meant(train, tmp_path, capsys, metric, message):
    with pytest.raises(SystemExit) as stop:
        train("run", "--best-checkpoint-metric", *metric)
    assert stop.value.code == 2 and message in capsys.readouterr().err
    assert not list((tmp_path / "run").glob("*.pt"))


@pytest.mark.parametrize("metric", ["loss", "mae_length"])
def test_metrics_that_are_known_are_logged(train, metric, fresh_fairseq):
    train("run", "--best-checkpoint-metric", metric, "--max-epoch", 1)


# ------------------------------------------------------------------- missing flags

COMPLETE = f"""--user-dir {USER_DIR} --task graph_prediction {TINY} --dataset-name nci
    --criterion l1_loss --optimizer adam --lr 1e-3 --batch-size 16"""


def refused(main, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fairseq", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    "flag", ["--task", "--arch", "--criterion", "--optimizer", "--batch-size"]
)
def test_training_lacks_a_flag(flag, monkeypatch, capsys):
    arguments = COMPLETE.split()
    place = arguments.index(flag)
    del arguments[place : place + 2]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert f"the command lacks {flag}" in line


def test_all_missing_flags_are_named_at_once(monkeypatch, capsys):
    arguments = ["--user-dir", USER_DIR, "--dataset-name", "nci"]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    for flag in ("--task", "--arch", "--criterion", "--optimizer", "--batch-size"):
        assert flag in line


@pytest.mark.parametrize(
    "arguments, flag",
    [("--path x.pt --task graph_prediction", "--batch-size")]
    + [("--path x.pt --batch-size 4", "--task")]
    + [("--batch-size 4 --task graph_prediction", "--path")],
)
def test_validation_lacks_a_flag(arguments, flag, monkeypatch, capsys):
    arguments = ["--user-dir", USER_DIR, *arguments.split()]
    line = refused(fairseq_validate.cli_main, arguments, monkeypatch, capsys)
    assert f"the command lacks {flag}" in line


@pytest.mark.parametrize("wrong", ["--batch-size many", "--typo 3", "--arch grp_small"])
def test_a_wrong_flag_shows_no_usage(wrong, monkeypatch, capsys):
    arguments = [*COMPLETE.split(), *wrong.split()]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert wrong.split()[0] in line


@pytest.mark.parametrize(
    "wrong, shown",
    [
        ("--arch grpe_smal", "'grpe_smal'; is it grpe_small"),
        ("--criterion l1_los", "'l1_los'; is it l1_loss"),
        ("--task zzzz", "'zzzz' (python -m graphormer_plugin lists"),
        ("--lr-scheduler fixd", "choose from .*fixed"),  # few choices are all shown
    ],
)
def test_a_misspelt_name_shows_the_nearest(wrong, shown, monkeypatch, capsys):
    arguments = [*COMPLETE.split(), *wrong.split()]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert re.search(shown.replace("(", r"\("), line) and len(line) < 400


@pytest.mark.parametrize(
    "schedule, flag",
    [
        ("polynomial_decay", "--total-num-update"),
        ("cosine", "--max-update"),
        ("triangular", "--max-lr"),
        ("tri_stage", "--phase-ratio"),
        ("tri_stage --phase-ratio (0.1,0.4,0.5)", "--max-update"),
        ("fixed --lr-scheduler triangular", "--max-lr"),
    ],
)
def test_a_schedule_lacks_a_flag(schedule, flag, monkeypatch, capsys):
    for begin in ("--lr-scheduler ", "--lr-scheduler="):
        arguments = [*COMPLETE.split(), *(begin + schedule).split()]
        line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
        assert f"the command lacks {flag}" in line


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    arguments = [*COMPLETE.split(), "--save-dir", str(tmp_path / "file/run")]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert str(tmp_path / "file/run") in line


# What fairseq would evaluate; an exit would end the test.
PROGRAM = "(0.9,__import__('sys').exit(7))"


@pytest.mark.parametrize(
    "wrong",
    ["--log-interval 0", "--update-freq 0", "--update-freq 1,0", "--update-freq []"]
    + ["--save-interval 0", "--validate-interval 0", "--lr []"]
    + ["--distributed-world-size 0", "--restore-file nofile.pt"]
    + ["--adam-betas nope", "--adam-betas 0.9", "--adam-betas (0.9,1)"]
    + ["--adam-betas (0.9,0.98,0.99)", "--adam-betas (0.9,'x')"]
    + [f"--optimizer adamax --adamax-betas {PROGRAM}"]
    + [f"--optimizer adafactor --adafactor-eps {PROGRAM}"]
    + ["--optimizer adafactor --adafactor-eps (1e-30,-1)"]
    + ["--optimizer-overrides nope", "--optimizer-overrides (1,2)"]
    + ["--optimizer-overrides {[]:1}", "--max-tokens-valid nope"]
    + ["--batch-size-valid 0", "--batch-size-valid 1.5", "--max-tokens -1"]
    + ["--batch-size 0", "--lr -1.0", "--lr 0.1,-1.0"],
)
def test_a_value_that_fairseq_fails_over(wrong, monkeypatch, capsys):
    arguments = [*COMPLETE.split(), *wrong.split()]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert f"error: {' '.join(wrong.split()[-2:])}: " in line


@pytest.mark.parametrize(
    "flag, text",
    [
        ("--target-unit", "mol\\"),
        ("--target-columns", "a\\'b"),
        ("--dataset-name", "p ${x}.csv"),
        ("--target-columns", "???"),
    ],
)
def test_a_text_that_fairseq_misreads(flag, text, monkeypatch, capsys):
    arguments = [*COMPLETE.split(), flag, text]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert f"error: {flag} {text}: expected no ${{, no ??? alone and no" in line


@pytest.mark.parametrize("text", ["a\\b\\\\c", "a'b", "'", "$x {y}", "\\ "])
def test_a_text_that_fairseq_reads_as_it_is(text):
    arguments = [*COMPLETE.split(), "--target-unit", text]
    parsed = parse_args_and_arch(get_training_parser(), arguments)
    check_texts(vars(parsed))
    assert convert_namespace_to_omegaconf(parsed).task.target_unit == text


@pytest.mark.parametrize(
    "schedule, wrong",
    [
        ("inverse_sqrt", "--warmup-updates 0"),
        ("polynomial_decay", "--total-num-update 0"),
        ("polynomial_decay", "--total-num-update nope"),
        ("reduce_lr_on_plateau", "--lr-shrink 2.0"),
    ],
)
def test_a_schedule_that_fairseq_fails_over(schedule, wrong, monkeypatch, capsys):
    arguments = f"{COMPLETE} --lr-scheduler {schedule} {wrong}".split()
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert f"error: {wrong}: " in line


@pytest.mark.parametrize(
    "wrong, reason",
    [
        ("--lr-scheduler triangular --max-lr 1e-9", "max_lr must be more than lr"),
        ("--lr-scheduler pass_through", "own schedulers"),
        ("--lr-scheduler step --max-update 0 --lr-decay 2", "self.lr_decay <= 1"),
        ("--lr-scheduler inverse_sqrt --lr 0.1,0.2", "fixed learning rate"),
        (
            "--lr-scheduler tri_stage --max-update 9 --phase-ratio (0.3,0.3,0.3)",
            "phase ratios must add up to 1",
        ),
        ("--optimizer composite", "groups"),
        ("--optimizer lamb", "install apex"),
    ],
)
def test_an_optimizer_or_schedule_that_cannot_be_made(
    wrong, reason, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "apex.optimizers", None)
    arguments = f"{COMPLETE} {wrong}".split()
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert " ".join(wrong.split()[:2]) in line and reason in line


@pytest.mark.parametrize(
    "registry, name, base",
    [
        (OPTIMIZER_REGISTRY, "adam", FairseqOptimizer),
        (LR_SCHEDULER_REGISTRY, "fixed", FairseqLRScheduler),
    ],
)
def test_components_of_others_are_not_tried(registry, name, base, monkeypatch):
    class OfMatrices(base):
        def __init__(self, *arguments):
            raise ValueError("for matrices only")

    arguments = f"{COMPLETE} --optimizer adam --lr-scheduler fixed".split()
    parsed = parse_args_and_arch(get_training_parser(), arguments)
    monkeypatch.setitem(registry, name, OfMatrices)
    check_optimizer(parsed)
    monkeypatch.setattr(OfMatrices, "__module__", "fairseq.optim.matrices")
    with pytest.raises(ValueError, match="cannot make it: for matrices only"):
        check_optimizer(parsed)


def test_an_optimizer_without_the_weights_of_memory_efficient_fp16():
    arguments = f"{COMPLETE} --memory-efficient-fp16 --optimizer".split()
    check_optimizer(parse_args_and_arch(get_training_parser(), [*arguments, "adam"]))
    parsed = parse_args_and_arch(get_training_parser(), [*arguments, "adamw"])
    with pytest.raises(ValueError, match="it has no --memory-efficient-fp16; adam has"):
        check_optimizer(parsed)


@pytest.mark.parametrize("optimizer", ["adamw", "adam_l2"])
@pytest.mark.parametrize("flag", ["--use-old-adam", "--fp16-adam-stats"])
def test_options_of_adam_that_others_do_not_have(optimizer, flag):
    arguments = f"{COMPLETE} --optimizer {optimizer}".split()
    check_optimizer(parse_args_and_arch(get_training_parser(), arguments))
    parsed = parse_args_and_arch(get_training_parser(), [*arguments, flag])
    with pytest.raises(
        ValueError, match=f"--optimizer {optimizer}: .* it has no {flag}"
    ):
        check_optimizer(parsed)


def test_amp_without_a_gpu_has_no_effect(caplog):
    parsed = parse_args_and_arch(get_training_parser(), f"{COMPLETE} --amp".split())
    parsed.cpu = True
    check_device(parsed)
    assert "--amp has no effect without a GPU" in caplog.text


def test_fine_tuning_resets_by_itself(monkeypatch, capsys):
    arguments = [*COMPLETE.split(), "--finetune-from-model", "x.pt", "--reset-meters"]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert "--reset-meters: --finetune-from-model implies it" in line


@pytest.mark.parametrize("flag, device", [("--fp16", "GPU"), ("--bf16", "torch_xla")])
def test_a_type_of_weights_without_its_device(flag, device, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    line = refused(
        fairseq_train.cli_main, [*COMPLETE.split(), flag], monkeypatch, capsys
    )
    assert flag in line and device in line


@pytest.mark.parametrize("flag", ["--log-file", "--tensorboard-logdir"])
def test_the_folder_of_a_log(flag, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    arguments = [*COMPLETE.split(), flag, str(tmp_path / "file/logs/log")]
    line = refused(fairseq_train.cli_main, arguments, monkeypatch, capsys)
    assert f"error: {flag} {tmp_path / 'file/logs'}" in line


def test_a_checkpoint_that_is_not_there(monkeypatch, capsys):
    arguments = (
        f"--user-dir {USER_DIR} --path x.pt --task graph_prediction --batch-size 4"
    )
    line = refused(fairseq_validate.cli_main, arguments.split(), monkeypatch, capsys)
    assert "x.pt: no such file" in line
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    halves = [*arguments.split(), "--fp16"]  # a validation needs no GPU for it
    line = refused(fairseq_validate.cli_main, halves, monkeypatch, capsys)
    assert "x.pt: no such file" in line
    arguments = arguments.replace("x.pt", "x.pt --model-overrides nope")
    line = refused(fairseq_validate.cli_main, arguments.split(), monkeypatch, capsys)
    assert "--model-overrides nope: expected a dict" in line


@pytest.mark.parametrize("level, lines", [(None, 0), ("DEBUG", 1)])
def test_tracebacks_are_for_debugging(level, lines, monkeypatch, caplog):
    """fairseq-validate has the root logger at DEBUG when it reads its arguments."""
    if level:
        monkeypatch.setenv("LOGLEVEL", level)
    with caplog.at_level(logging.DEBUG), pytest.raises(SystemExit), one_line_errors():
        raise ValueError("wrong")
    assert len(caplog.records) == lines


def test_a_criterion_of_another_kind(tmp_path):
    """It may train; what the task asks a `GraphCriterion` for is not asked of it."""

    class Mine(FairseqCriterion):
        pass

    criterion = Mine(None)
    check_criterion(criterion, "mine", None)
    settle_metric(options(best_checkpoint_metric="mine"), criterion)
    with pytest.raises(ValueError, match="--criterion mine is not a graphormer_plugin"):
        check_criterion(criterion, "mine", str(tmp_path))
