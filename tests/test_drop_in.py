"""Commands written for Graphormer v2, as they are but for paths, device and epochs.

The recipes are those of its examples folder. Sizes of the model are cut by further
arguments at the end, which fairseq lets win, so that the tests are quick.
"""

import os
import re
import shlex

import numpy as np
import pytest
import torch
from fairseq_cli import train as fairseq_train

from support.benchmark_files import SMILES, write_ogbg, write_zinc
from support.golden import published_graphormer
from support.training import USER_DIR, logged, run, weights

pytestmark = pytest.mark.usefixtures("fresh_fairseq")

COMMON = """
    --num-workers 16 --ddp-backend=legacy_ddp --task graph_prediction
    --criterion l1_loss --num-classes 1
    --attention-dropout 0.1 --act-dropout 0.1 --dropout 0.0
    --optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-8 --clip-norm 5.0
    --weight-decay 0.01 --lr-scheduler polynomial_decay --power 1
    --warmup-updates 60000 --total-num-update 400000 --lr 2e-4
    --end-learning-rate 1e-9 --batch-size 64 --fp16 --data-buffer-size 20
"""
SLIM = """--arch graphormer_slim --encoder-layers 12 --encoder-embed-dim 80
    --encoder-ffn-embed-dim 80 --encoder-attention-heads 8 --max-epoch 10000"""
BASE = """--arch graphormer_base --encoder-layers 12 --encoder-embed-dim 768
    --encoder-ffn-embed-dim 768 --encoder-attention-heads 32 --max-epoch 300"""
RECIPES = {
    "zinc": f"{COMMON} {SLIM} --dataset-name zinc --dataset-source pyg",
    "molhiv": f"""{COMMON} {BASE} --dataset-name ogbg-molhiv --dataset-source ogb
        --task graph_prediction_with_flag --criterion binary_logloss_with_flag
        --pretrained-model-name pcqm4mv1_graphormer_base_for_molhiv --seed 1
        --flag-m 3 --flag-step-size 0.01 --flag-mag 0 --pre-layernorm""",
}
TINY = """--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --encoder-attention-heads 2"""
# The golden weights have these sizes.
GOLDEN = """--encoder-layers 3 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48
    --encoder-attention-heads 4 --num-workers 0"""
CPU = "--cpu --fp16-no-flatten-grads --max-epoch 1 --log-format json"


@pytest.fixture
def drop_in(tmp_path, monkeypatch):
    """Function that runs a recipe with further arguments and returns its log."""
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path))
    monkeypatch.setenv("GRAPHORMER_PRETRAINED_DIR", str(tmp_path))

    def run_recipe(name, more):
        words = ["--user-dir", USER_DIR, *shlex.split(f"{RECIPES[name]} {CPU} {more}")]
        words += ["--save-dir", str(tmp_path / "ckpts")]
        return run(fairseq_train.cli_main, words, monkeypatch)

    return run_recipe


def test_molhiv_starts_from_a_published_model(drop_in, tmp_path):
    labels = np.arange(len(SMILES))[:, None] % 2.0
    write_ogbg(tmp_path, "ogbg-molhiv", SMILES, labels)
    published = published_graphormer()
    file = tmp_path / "pcqm4mv1_graphormer_base_for_molhiv.pt"
    torch.save({"model": published}, file)
    log = drop_in("molhiv", GOLDEN)
    assert "valid_roc_auc" in str(logged(log, "valid")[0])
    assert "head.projection.weight" in log.partition("re-initialised")[2]
    path = tmp_path / "ckpts/checkpoint_last.pt"
    tuned = weights(path)["model"]
    prefix = "encoder.graph_encoder."
    token = prefix + "graph_node_feature.graph_token.weight"
    for ours, theirs in [
        ("encoder.virtual_node.embedding.weight", token),
        ("encoder.layers.2.fc1.weight", prefix + "layers.2.fc1.weight"),
        ("head.transform.weight", "encoder.lm_head_transform_weight.weight"),
    ]:
        # half precision, and one update of the warm-up
        assert torch.allclose(tuned[ours].float(), published[theirs], atol=1e-3), ours
    # A second call goes on, without the file.
    file.unlink()
    log = drop_in("molhiv", f"{GOLDEN} --max-epoch 2")
    assert "re-initialised" not in log
    assert [line["epoch"] for line in logged(log, "valid")] == [2]


def test_all_flags_of_graphormer_v2(drop_in, tmp_path):
    parts = {"train": SMILES[:32], "val": SMILES[32:40], "test": SMILES[40:]}
    labelled = {}
    for name, part in parts.items():
        labelled[name] = [(smiles, 0.5 * len(smiles)) for smiles in part]
    write_zinc(tmp_path, labelled)
    flags = """--num-atoms 512 --num-edges 600 --num-in-degree 20 --num-out-degree 30
        --num-spatial 40 --num-edge-dis 50 --multi-hop-max-dist 4 --spatial-pos-max 9
        --edge-type multi_hop --max-nodes 128 --train-epoch-shuffle
        --pretrained-model-name none --load-pretrained-model-output-layer
        --share-encoder-input-output-embed --encoder-learned-pos
        --no-token-positional-embeddings --max-positions 99 --apply-graphormer-init
        --activation-fn relu --encoder-normalize-before --pre-layernorm"""
    log = drop_in("zinc", f"{TINY} {flags}")
    (line,) = [line for line in logged(log, "train") if "train_lr" in line]
    # 60,000 updates of warm-up
    assert line["train_lr"] == pytest.approx(2e-4 / 60000, rel=1e-3)
    assert len(logged(log, "valid")) == 1 and "zinc-full" in log
    cores = len(os.sched_getaffinity(0))
    assert (f"--num-workers 16: {cores}, one per core" in log) == (cores < 16)
    model = weights(tmp_path / "ckpts/checkpoint_last.pt")["model"]
    sizes = {
        "node_encoder.embedding": 512,  # one column
        "attn_bias.edges.bonds.embedding": 600,
        "node_encoder.encodings.0.projection.tables.0": 20,
        "node_encoder.encodings.0.projection.tables.1": 30,
        "attn_bias.spatial.embedding": 40,
        "attn_bias.edges": 50,
    }
    assert {name: len(model[f"encoder.{name}.weight"]) for name in sizes} == sizes
    assert set(re.findall("--([a-z-]+) has no effect", log)) >= {
        *("train-epoch-shuffle", "share-encoder-input-output-embed", "max-positions"),
        *("encoder-learned-pos", "no-token-positional-embeddings"),
    }
