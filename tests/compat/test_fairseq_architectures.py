"""Architectures under fairseq's names, as `fairseq-hydra-train` reads them."""

import pytest
from fairseq.dataclass.initialize import add_defaults
from omegaconf import OmegaConf

from graphormer_plugin.models import ARCHITECTURES


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_name_means_the_sizes_of_its_preset(name):
    cfg = OmegaConf.create({"model": {"_name": name}})
    add_defaults(cfg)
    assert dict(cfg.model) == {**ARCHITECTURES[name].options(), "_name": name}


def test_an_option_comes_before_the_preset():
    cfg = OmegaConf.create({"model": {"_name": "grpe_tiny", "encoder_layers": 3}})
    add_defaults(cfg)
    tiny = ARCHITECTURES["grpe_tiny"].options()
    assert dict(cfg.model) == {**tiny, "encoder_layers": 3, "_name": "grpe_tiny"}
