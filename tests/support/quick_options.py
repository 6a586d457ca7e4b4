"""fairseq's options as hydra makes them, without doing equal work for every training.

Hydra takes 0.3 of the 0.5 s of CPU time of a short training: it searches and loads the
schemas and parses 280 overrides, nearly all of them equal in every run.
"""

import contextlib
import copy
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import fairseq
from fairseq import options
from fairseq.dataclass import utils
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf


@functools.cache
def defaults() -> DictConfig:
    folder = str(Path(fairseq.__file__).parent / "config")
    with initialize_config_dir(folder, version_base="1.1"):
        return compose("config")


@functools.cache
def parsed(override: str):
    (result,) = OverridesParser.create().parse_overrides([override])
    return result


def quick_compose(name: str, overrides: Sequence[str], strict: bool) -> DictConfig:
    """Equals hydra's `compose` for what fairseq asks it; see test_end_to_end.py."""
    cfg = copy.deepcopy(defaults())
    values = []
    for text in overrides:
        key, _, value = text.partition("=")
        if "." in key:
            values.append(parsed(text))
        else:  # task=graph_prediction
            cfg[key] = ConfigStore.instance().load(f"{key}/{value}.yaml").node
    OmegaConf.set_struct(cfg, True)
    ConfigLoaderImpl._apply_overrides_to_config(values, cfg)
    OmegaConf.set_struct(cfg, strict)
    return cfg


def quicken() -> None:
    """For all trainings of this process, and of its forks."""
    utils.compose = quick_compose
    utils.initialize = lambda config_path: contextlib.nullcontext()


def warm_up() -> None:
    """Quickens this process and parses what most trainings share, before it forks."""
    quicken()
    arguments = "--task graph_prediction --arch grpe_tiny --criterion l1_loss"
    arguments += " --optimizer adam --lr-scheduler polynomial_decay"
    arguments += f" --total-num-update 1 --save-dir {tempfile.gettempdir()}"
    parser = options.get_training_parser()
    arguments = options.parse_args_and_arch(parser, arguments.split())
    utils.convert_namespace_to_omegaconf(arguments)
