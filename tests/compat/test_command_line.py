"""Command lines of fairseq that are refused in one line, before the data are read."""

import logging
import re
import sys

import pytest
from fairseq.logging import progress_bar
from fairseq.optim import OPTIMIZER_REGISTRY, FairseqOptimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY, FairseqLRScheduler
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin.compat.command_line import (
    NO_LIMIT,
    check_optimizer,
    require_flags,
)
from support.training import TINY, USER_DIR

COMPLETE = f"""--user-dir {USER_DIR} --task graph_prediction {TINY} --dataset-name nci
    --criterion l1_loss --optimizer adam --lr 1e-3 --batch-size 16"""
VALIDATE = f"--user-dir {USER_DIR} --task graph_prediction --batch-size 4"


@pytest.fixture(autouse=True)
def current_folder(monkeypatch, tmp_path):
    """The folder of checkpoints is made when flags are read."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(monkeypatch, capsys):
    """The line with which a command ends that must exit with code 2."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "apex.optimizers", None)

    def run(arguments, main=fairseq_train.cli_main):
        monkeypatch.setattr(sys, "argv", ["fairseq", *arguments])
        with pytest.raises(SystemExit, match="2"):
            main()
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


def parsed(more):
    return parse_args_and_arch(get_training_parser(), f"{COMPLETE} {more}".split())


@pytest.mark.parametrize(
    "main, flags",
    [
        (fairseq_train.cli_main, "--task --arch --criterion --optimizer --batch-size"),
        (fairseq_validate.cli_main, "--task --path --batch-size"),
    ],
)
def test_all_missing_flags_are_named_at_once(main, flags, refused):
    line = refused(["--user-dir", USER_DIR, "--dataset-name", "nci"], main)
    named, _, _ = line.partition("(")
    assert re.findall(r"--[a-z-]+", named) == flags.split()


# Further words of a training, and a pattern of its line.
WRONG = r"""
--batch-size many | --batch-size.*invalid int value: 'many'
--typo 3 | --typo
--store-ema | --store-ema: nothing reads these weights
--arch grpe_smal | 'grpe_smal' \(python -m graphormer_plugin lists
--lr-scheduler fixd | choose from .*fixed
--lr-scheduler triangular | --max-lr
--restore-file nofile.pt | error: --restore-file nofile.pt: no such file
--finetune-from-model x.pt --reset-meters | --finetune-from-model implies --reset
--fp16 | error: --fp16: .* GPU
--tpu | error: --tpu: .*torch_xla
--bf16 --tpu | error: --tpu: .*torch_xla
--wandb-project p | error: --wandb-project: wandb is not installed
--tensorboard-logdir p | error: --tensorboard-logdir: tensorboardX is not inst
--aim-repo p | error: --aim-repo: aim is not installed
--azureml-logging | error: --azureml-logging: azureml-core is not installed
--save-dir file/logs | Not a directory.*file/logs
--log-file file/logs/log | Not a directory.*file/logs
"""
# fairseq itself refuses these.
OPTIMISATION = """
--adam-betas nope | nope
--adam-betas (0.9,) | unpack
--lr [] | index out of range
--lr-scheduler polynomial_decay | total_num_update
--lr-scheduler cosine | max_update
--lr-scheduler tri_stage --max-update 9 | phase_ratio
--lr-scheduler inverse_sqrt --warmup-updates 0 | division by zero
--lr-scheduler inverse_sqrt --lr 0.1,0.2 | fixed learning rate
--lr-scheduler triangular --max-lr 1e-9 | max_lr must be more than lr
--lr-scheduler step --max-update 0 --lr-decay 2 | self.lr_decay <= 1
--optimizer lamb | install apex
--optimizer adamw --adam-betas (0.9,1) | Invalid beta
--optimizer adamw --use-old-adam | it has no --use-old-adam
--optimizer adam_l2 --fp16-adam-stats | it has no --fp16-adam-stats
--optimizer adamw --memory-efficient-fp16 | no --memory-efficient-fp16
"""


def rows(text):
    return [line.split(" | ") for line in text.strip().splitlines()]


@pytest.mark.parametrize("wrong, shown", rows(WRONG))
def test_a_wrong_argument(wrong, shown, refused, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for name in ("wandb", "SummaryWriter", "AimRepo", "Run"):
        monkeypatch.setattr(progress_bar, name, None)
    line = refused([*COMPLETE.split(), *wrong.split()])
    assert re.search(shown, line) and len(line) < 400


def test_padded_pairs_alone_are_a_limit(monkeypatch):
    """fairseq demands --batch-size or --max-tokens."""
    words = COMPLETE.replace("--batch-size 16", "--max-pairs 400").split()
    monkeypatch.setattr(sys, "argv", ["fairseq", *words])
    found = parse_args_and_arch(get_training_parser())
    assert found.batch_size == NO_LIMIT and found.max_pairs == 400


@pytest.mark.parametrize("wrong, reason", rows(OPTIMISATION))
def test_an_optimizer_or_schedule_that_cannot_be_made(wrong, reason, refused):
    line = refused(f"{COMPLETE} {wrong}".split())
    assert "fairseq refuses the options: " in line and reason in line
    if wrong.startswith(("--optimizer", "--lr-scheduler")):
        assert " ".join(wrong.split()[:2]) in line


@pytest.mark.parametrize(
    "optimizer", ["adam --memory-efficient-fp16", "adamw", "adam_l2"]
)
def test_optimizers_that_can_be_made(optimizer):
    check_optimizer(parsed(f"--optimizer {optimizer}"))


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

    arguments = parsed("--lr-scheduler fixed")
    monkeypatch.setitem(registry, name, OfMatrices)
    check_optimizer(arguments)
    OfMatrices.__module__ = "fairseq.optim.matrices"
    with pytest.raises(ValueError, match="refuses the options: for matrices only"):
        check_optimizer(arguments)


def test_a_folder_of_logs_that_cannot_be_made(tmp_path, refused):
    (tmp_path / "file").touch()
    line = refused([*COMPLETE.split(), "--tensorboard-logdir", "file/logs"])
    assert "Not a directory" in line and "file/logs" in line


@pytest.mark.parametrize("more", ["", " --fp16"])  # a validation needs no GPU
def test_a_wrong_argument_of_a_validation(more, refused):
    line = refused(f"{VALIDATE} --path x.pt{more}".split(), fairseq_validate.cli_main)
    assert "x.pt: no such file" in line


@pytest.mark.parametrize("words, lines", [("", 0), ("--lr", 1)])
def test_a_rate_that_is_left_out_gets_a_line(words, lines, caplog):
    arguments = [word for word in COMPLETE.split() if word not in (words, "1e-3")]
    require_flags(get_training_parser(), arguments)
    assert caplog.text.count("no --lr: fairseq's default is 0.25") == lines


def test_hydra_logs_no_details():
    assert not logging.getLogger("hydra.core.utils").isEnabledFor(logging.DEBUG)
