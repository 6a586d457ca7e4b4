"""Architectures under fairseq's names, as `fairseq-hydra-train` reads them."""

import pytest
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from omegaconf import OmegaConf

from graphormer_plugin.models import ARCHITECTURES


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_name_means_the_sizes_of_its_preset(name):
    cfg = OmegaConf.create({"model": {"_name": name}})
    add_defaults(cfg)
    assert dict(cfg.model) == {**ARCHITECTURES[name].options(), "_name": name}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_flag_turns_an_option_on_whatever_the_preset_has(name):
    expected = ARCHITECTURES[name].options()
    on = [option for option, value in expected.items() if value is True]
    words = (
        "--task graph_prediction --criterion l1_loss --optimizer adam --arch".split()
    )
    words += [name, *(f"--{option.replace('_', '-')}" for option in on)]
    parsed = parse_args_and_arch(get_training_parser(), words)
    model = convert_namespace_to_omegaconf(parsed).model
    assert {option: model[option] for option in expected} == expected


def test_an_option_comes_before_the_preset():
    cfg = OmegaConf.create({"model": {"_name": "grpe_tiny", "encoder_layers": 3}})
    add_defaults(cfg)
    tiny = ARCHITECTURES["grpe_tiny"].options()
    assert dict(cfg.model) == {**tiny, "encoder_layers": 3, "_name": "grpe_tiny"}
