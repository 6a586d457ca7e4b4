"""Optimisers of a single weight."""

from fairseq.optim.adam import FairseqAdamConfig
from omegaconf import OmegaConf

EPSILON = 1e-16  # in fairseq's Adam before the correction of the bias


def make(optimiser, weight, epsilon=EPSILON):
    cfg = OmegaConf.structured(FairseqAdamConfig(weight_decay=0.1))
    OmegaConf.set_struct(cfg, False)
    cfg.lr, cfg.adam_betas, cfg.tpu = [0.01], "(0.9, 0.99)", False
    cfg.adam_eps = epsilon
    return optimiser(cfg, [weight])
