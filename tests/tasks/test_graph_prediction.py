"""The task: options, data, checkpoints, and errors of one line."""

import json
import logging
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.models import BaseFairseqModel
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.store import featurise
from graphormer_plugin.models import EncoderConfig
from graphormer_plugin.tasks.graph_prediction import (
    GraphPredictionConfig,
    GraphPredictionTask,
)
from support.architectures import tiny_model

ROOT = Path(__file__).parents[2]
STARTS = "C CC OCC NCC ClCC CC(=O)OC N#CC c1ccccc1C BrCC FCC".split()
SMILES = [start + "C" * k for start in STARTS for k in range(3)]
SPLITS = ["train"] * 20 + ["valid"] * 5 + ["test"] * 5


@pytest.fixture
def csv(tmp_path):
    """30 molecules, two targets, one of them missing in some rows."""
    lines = ["smiles,split,heavy,odd"]
    for row, (smiles, split) in enumerate(zip(SMILES, SPLITS)):
        odd = "" if row % 7 == 3 else str(row % 2)
        lines.append(f"{smiles},{split},{len(smiles)},{odd}")
    path = tmp_path / "molecules.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def config(tmp_path, **options):
    values = {"data_root": str(tmp_path / "data"), "prepare_workers": 1, "seed": 1}
    return GraphPredictionConfig(**{**values, **options})


def csv_config(tmp_path, csv, **options):
    values = {"dataset_name": str(csv), "target_columns": "heavy,odd"}
    return config(tmp_path, **{**values, **options})


@pytest.fixture
def make(tmp_path, csv):
    """Function that makes the task of the CSV, as fairseq's commands do."""

    def make(from_checkpoint=False, **options):
        cfg = csv_config(tmp_path, csv, **options)
        return GraphPredictionTask.setup_task(cfg, from_checkpoint=from_checkpoint)

    return make


@pytest.fixture
def loaded(make):
    """Function that makes the task with a split, for a model that reads few fields."""

    def loaded(split, **options):
        task = make(**options)
        task.load_dataset(split)
        task.collator.spec = Linear.batch_spec
        return task

    return loaded


class Linear(BaseFairseqModel):
    """Predicts from the number of nodes."""

    batch_spec = BatchSpec(frozenset({"x", "node_mask"}))

    def __init__(self, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(1, outputs)

    def forward(self, batch):
        return self.linear(batch["node_mask"].sum(dim=1, keepdim=True).float())


def first_batch(task, split):
    dataset = task.dataset(split)
    return dataset.collater(list(range(len(dataset))))


def test_splits_and_shuffling(make):
    assert TASK_REGISTRY["graph_prediction"] is GraphPredictionTask
    task = make()
    for split, count in [("train", 20), ("valid", 5), ("test", 5)]:
        task.load_dataset(split, combine=True, epoch=1)
        assert len(task.dataset(split)) == count
        assert task.dataset(split).shuffle == (split == "train")
    assert task.targets.names == ["heavy", "odd"]
    assert task.targets.num_outputs == 2


def test_start_line_names_data_and_fingerprint(make, caplog):
    with caplog.at_level(logging.INFO):
        task = make()
    (line,) = [r.getMessage() for r in caplog.records if "fingerprint" in r.message]
    assert "20 train / 5 valid / 5 test" in line
    assert "heavy, odd" in line
    assert task.store.fingerprint[:12] in line


@pytest.fixture
def build(monkeypatch):
    """Function: let the task build a model that is given."""

    def build(task, model):
        monkeypatch.setattr("fairseq.models.build_model", lambda *_: model)
        name = "fairseq.quantization_utils.quantize_model_scalar"
        monkeypatch.setattr(name, lambda model, cfg: model)
        return task.build_model(EncoderConfig())

    return build


def test_spec_reaches_datasets_loaded_before_the_model(make, build):
    task = make()
    task.load_dataset("valid")
    labels = first_batch(task, "valid")
    assert labels["net_input"]["batch"] == {} and len(labels["target"]) == 5
    model = build(task, Linear(2))
    task.load_dataset("train")
    for split in ("train", "valid"):
        sample = first_batch(task, split)
        assert set(sample["net_input"]["batch"]) == {"x", "node_mask"}
        assert model(**sample["net_input"]).shape == sample["target"].shape
    assert task.dataset("train").collator is task.dataset("valid").collator


# Every option has an effect.


def test_option_prepare_workers(tmp_path, csv, monkeypatch):
    pools, in_workers = [], featurise.in_workers

    def counted(workers, *arguments):
        pools.append(workers)
        return in_workers(workers, *arguments)

    monkeypatch.setattr(featurise, "in_workers", counted)
    prints = set()
    for workers in (1, 2):
        cfg = csv_config(tmp_path / str(workers), csv, prepare_workers=workers)
        prints.add(GraphPredictionTask(cfg).store.fingerprint)
        assert pools == [0, 2][:workers]
    assert len(prints) == 1


def test_option_bucket_ratio(make):
    def buckets(ratio):
        task = make(bucket_ratio=ratio)
        return len(set(task.load_split("train").buckets.tolist()))

    assert buckets(1e9) == 1 < buckets(0.5) < buckets(0.0)
    assert buckets(None) == buckets(0.1)


@pytest.mark.parametrize(
    ("arch", "options", "mixed"),
    [
        ("gt_zinc", {}, True),
        ("gt_zinc", {"norm": "layer"}, False),
        ("cgt_zinc", {}, True),
        ("gin", {}, True),
        ("grpe_small", {}, False),
        ("graphormer_paper_slim", {}, False),
    ],
)
def test_batch_norm_sees_all_sizes(make, build, arch, options, mixed):
    """The statistics of a batch are those of the data, not those of one size."""
    model = tiny_model(arch, **options)
    for ratio in (None, 0.1):
        task = make(bucket_ratio=ratio)
        task.load_dataset("train")
        build(task, model)
        task.load_dataset("valid")
        for split in ("train", "valid"):  # read before and after the model
            found = task.dataset(split).buckets
            assert (len({*found.tolist()}) == 1) == (mixed and ratio is None)


def test_option_max_nodes_names_the_graph(tmp_path, csv):
    task = GraphPredictionTask(csv_config(tmp_path, csv, max_nodes=5))
    task.load_split("test")
    with pytest.raises(ValueError, match=r"graph 17 has 7 nodes.*--max-nodes 5 \(2 of"):
        task.load_split("train")


def test_option_target_scale(make, error, tmp_path, csv):
    task, raw = make(), make(target_scale="none")
    values = torch.tensor([[4.0, float("nan")], [8.0, 1.0]])
    assert (task.targets.standardise(values) != values).all()
    for change in (raw.targets.standardise, raw.targets.restore):
        torch.testing.assert_close(
            change(values), values, equal_nan=True, atol=0, rtol=0
        )
    # The checkpoint says so, whatever the run that reads it.
    restored = make()
    restored.load_state_dict(json.loads(json.dumps(raw.state_dict())))
    assert restored.targets == raw.targets != task.targets
    # A run cannot go on at another scale.
    (state,) = raw.get_checkpoint_dict().values()
    raw.set_checkpoint_dict(state)
    assert "--target-scale none" in error(task.set_checkpoint_dict, state)
    raw.cfg.element_energies = "no"
    assert "--element-energies no" in error(raw.set_checkpoint_dict, state)
    for wrong in ({"target_scale": "std"}, {"element_energies": "all"}):
        with pytest.raises(ValueError, match="unknown --"):
            GraphPredictionTask(csv_config(tmp_path, csv, **wrong))


# Wrong input in fairseq's commands


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset_name": None}, "give --dataset-name"),
        ({"target_columns": "heavy,weight"}, "weight"),
        ({"num_classes": 5}, "--num-classes 5"),
        ({"user_data_dir": "/nowhere/folder"}, "/nowhere/folder"),
        ({"data_root": "/dev/null"}, "--data-root"),
        ({"num_classes": 0}, "--num-classes 0: expected"),
        ({"max_nodes": 0}, "--max-nodes 0: expected"),
        ({"prepare_workers": 0}, "--prepare-workers 0: expected"),
        ({"bucket_ratio": -0.1}, "--bucket-ratio -0.1: expected"),
        ({"bucket_ratio": float("nan")}, "--bucket-ratio nan: expected"),
    ],
)
def test_wrong_input_is_one_line_and_code_2(make, error, options, message):
    assert message in error(make, **options)


@pytest.mark.parametrize(
    "part, cfg, message",
    [
        ("criterion", {"_name": "cross_entropy", "sentence_avg": False}, "--criterion"),
        ("model", {"_name": "transformer"}, "--arch transformer is fairseq's, for"),
        ("model", {"arch": "lstm"}, "--arch lstm is fairseq's, for text"),
    ],
)
def test_components_for_text_are_refused(make, error, part, cfg, message):
    kind = OmegaConf.create if part == "criterion" else lambda cfg: Namespace(**cfg)
    line = error(getattr(make(), f"build_{part}"), kind(cfg))
    assert message in line and "for graphs" in line


def test_a_file_as_results_path_is_refused_before_the_work(make, error, csv):
    task = make(results_path=str(csv))
    line = error(task.build_criterion, OmegaConf.create({"_name": "l1_loss"}))
    assert f"--results-path {csv}" in line and "name a folder" in line


def test_learning_rates_of_layers_need_separate_tensors(tmp_path, error):
    """On a GPU --fp16 joins all weights in one tensor, which has one rate."""
    task = GraphPredictionTask(config(tmp_path))
    task.scales_learning_rates = True
    optimizer = FP16Optimizer.__new__(FP16Optimizer)
    optimizer.fp32_params = torch.zeros(3)
    line = error(task.optimizer_step, optimizer, model=None, update_num=0)
    assert "--layerwise-lr-decay" in line and "--fp16-no-flatten-grads" in line


def test_unknown_split_lists_those_there_are(make, error):
    line = error(make().load_dataset, "validation")
    assert "'validation'" in line and "test|train|valid" in line


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"max_sentences": 0}, "--batch-size 0"),
        ({"max_tokens": -1, "max_sentences": 4}, "--max-tokens -1"),
        ({"num_workers": -1}, "--num-workers -1"),
        # what the trainer passes with --max-tokens 5
        (
            {"max_tokens": 5, "max_positions": 5, "ignore_invalid_inputs": True},
            "graph 17 has 7 nodes",
        ),
    ],
)
def test_limits_of_a_training_batch(loaded, error, limits, message):
    task = loaded("train")
    assert message in error(task.get_batch_iterator, task.dataset("train"), **limits)


def test_evaluation_leaves_large_graphs_out(loaded, error, caplog):
    task = loaded("valid")
    dataset = task.dataset("valid")
    sizes = np.sort(dataset.sizes)
    limit = int(sizes[2])

    def batches(limit):  # as fairseq calls it: no max_positions
        return task.get_batch_iterator(
            dataset,
            disable_iterator_cache=True,
            max_tokens=limit,
            ignore_invalid_inputs=True,
        ).frozen_batches

    assert sum(map(len, batches(limit))) == (sizes <= limit).sum() < len(sizes)
    assert f"left out: they have more nodes than --max-tokens {limit}" in caplog.text
    assert "all graphs have more nodes than --max-tokens 1" in error(batches, 1)


def test_pairs_of_a_batch(loaded, error, caplog):
    def batches_of(split, **options):
        task = loaded(split, **options)
        iterator = task.get_batch_iterator(
            task.dataset(split), max_sentences=50, ignore_invalid_inputs=True
        )
        batches = iterator.next_epoch_itr(shuffle=False)
        return [task.store.sizes[batch["id"].numpy()] for batch in batches]

    assert [len(sizes) for sizes in batches_of("train")] == [20]
    batches = batches_of("train", max_pairs=100)
    assert sum(map(len, batches)) == 20 and len(batches) > 1
    for sizes, following in zip(batches, batches[1:]):
        assert len(sizes) * sizes.max() ** 2 <= 100
        more = max(sizes.max(), following[0]) ** 2 * (len(sizes) + 1)
        assert more > 100  # the next graph would not fit
    line = error(batches_of, "train", max_pairs=48)
    assert "graph 17 has 7 nodes, 49 pairs, more than --max-pairs 48" in line
    assert "--max-pairs 0" in error(batches_of, "train", max_pairs=0)
    assert sum(map(len, batches_of("valid", max_pairs=10))) < 5
    assert "are left out" in caplog.text and "--max-pairs 10" in caplog.text


def test_one_iterator_per_dataset(loaded):
    task = loaded("train")
    train = task.dataset("train")
    iterator = task.get_batch_iterator(train, epoch=1, max_sentences=3)
    assert task.get_batch_iterator(train, epoch=2, max_sentences=3) is iterator


@pytest.mark.parametrize("max_sentences", [1, 2, 30])
def test_updates_have_the_same_graphs_on_any_number_of_processes(loaded, max_sentences):
    """Four times max_sentences of them, as processes, --update-freq or --batch-size."""

    def updates_of(shards, freq, batch_size, **more):
        task = loaded("train", update_freq=[9, freq], **more)
        epochs = []
        for shard in range(shards):
            iterator = task.get_batch_iterator(
                task.dataset("train"),
                max_sentences=batch_size,
                update_epoch_batch_itr=False,
                num_shards=shards,
                shard_id=shard,
                epoch=2,
                disable_iterator_cache=True,
                grouped_shuffling=True,
            )
            assert len(iterator.first_batch["id"]) > 0
            batches = [batch.get("id", ()) for batch in iterator.next_epoch_itr()]
            assert len(batches) == len(iterator) and len(batches) % freq == 0
            for start in range(0, len(batches), freq):
                sizes = [len(batch) for batch in batches[start : start + freq]]
                assert sizes[-1] == max(sizes) <= batch_size
            epochs.append(batches)
        return [
            sorted(int(i) for epoch in epochs for b in epoch[u : u + freq] for i in b)
            for u in range(0, len(epochs[0]), freq)
        ]

    whole = updates_of(1, 1, 4 * max_sentences)
    assert sorted(sum(whole, [])) == sorted(set(sum(whole, [])))
    for shards, freq in [(1, 4), (2, 2), (4, 1)]:
        assert updates_of(shards, freq, max_sentences) == whole
    assert updates_of(2, 1, 2 * max_sentences) == whole
    # Pairs are those of a batch, so that updates are smaller.
    pairs = updates_of(2, 2, max_sentences, max_pairs=100)
    assert sorted(sum(pairs, [])) == sorted(sum(whole, []))


def test_an_epoch_goes_on_with_other_processes(loaded):
    def iterator_of(shards, freq, batch_size):
        task = loaded("train", update_freq=[freq])
        return task.get_batch_iterator(
            task.dataset("train"),
            num_shards=shards,
            max_sentences=batch_size,
            update_epoch_batch_itr=False,
        )

    def graphs(batches):
        return {int(i) for batch in batches for i in batch.get("id", ())}

    before = iterator_of(1, 4, 1)
    running = before.next_epoch_itr()
    first = graphs([next(running) for _ in range(8)])
    after = iterator_of(2, 1, 2)  # the first of two processes
    after.load_state_dict(before.state_dict())
    rest = after.next_epoch_itr()
    assert rest.n == 2 and len(first) == 8
    later, there = graphs(running), graphs(rest)
    assert first | later == graphs(iterator_of(1, 1, 20).next_epoch_itr())
    assert there < later and len(there) == 6


# Checkpoints


def test_state_is_plain_json_and_is_all_that_a_model_needs(make, tmp_path, csv):
    task = make()
    state = json.loads(json.dumps(task.state_dict()))
    assert state == task.state_dict()

    csv.unlink()
    restored = make(from_checkpoint=True, data_root=str(tmp_path / "empty"))
    restored.load_state_dict(state)
    assert restored.schema == task.schema
    assert restored.targets == task.targets
    # and another checkpoint can be written from it without the data
    assert restored.state_dict() == state


def test_resuming_on_other_data_is_refused(make, error, csv):
    task = make()
    state = task.get_checkpoint_dict()["GraphPredictionTask"]
    task.set_checkpoint_dict(state)
    csv.write_text(csv.read_text().replace("\nOCC,", "\nSCC,"))
    other = make()
    line = error(other.set_checkpoint_dict, state)
    assert task.store.fingerprint[:12] in line
    assert other.store.fingerprint[:12] in line and "--finetune-from-model" in line


def test_molecules_that_the_checkpoint_was_fitted_to(make, tmp_path, caplog):
    """However they are written, in other data as in other splits."""
    task, other = make(), tmp_path / "other.csv"
    other.write_text(
        "smiles,heavy,odd,split\nCCO,3,0,test\nCCCCCCC,7,1,test\nN,1,1,train\nO,1,0,valid\n"
    )
    evaluated = make(True, dataset_name=str(other))
    evaluated.load_state_dict(task.state_dict())
    evaluated.load_dataset("test")
    assert "checkpoint was fitted to 1 graph of split test" in caplog.text
    caplog.clear()
    evaluated.load_dataset("train")
    assert "fitted to" not in caplog.text
    evaluated = make(True)
    evaluated.load_state_dict(task.state_dict())
    evaluated.load_dataset("train")
    assert "checkpoint was fitted to 20 graphs of split train" in caplog.text


def test_other_data_need_the_same_targets(make, tmp_path, caplog, error):
    task, other = make(), tmp_path / "other.csv"

    def restored(columns):
        found = make(True, dataset_name=str(other), target_columns=columns)
        found.load_state_dict(task.state_dict())
        return found

    text = "odd,smiles,heavy,split\n1,CCCC,4,test\n0,CCO,,train\n0,C,1,valid\n"
    other.write_text(text)
    evaluated = restored("odd,heavy")
    evaluated.load_dataset("test")
    evaluated.collator.spec = Linear.batch_spec
    assert first_batch(evaluated, "test")["target"].tolist() == [[4.0, 1.0]]
    assert evaluated.targets.mean == task.targets.mean
    assert "other data" in caplog.text
    assert "predicts heavy, odd" in error(restored("heavy").load_dataset, "test")


# Import


# Two ways, each in a fork of a process that has fairseq and not yet the plugin.
IMPORTS = """
import os, sys
from argparse import Namespace
from pathlib import Path
from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

def check():
    assert "graph_prediction" in TASK_REGISTRY
    assert "grpe_small" in ARCH_MODEL_REGISTRY
    assert "l1_loss" in CRITERION_REGISTRY

folder = Path(sys.argv[1])
for first in (False, True):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        continue
    assert "graphormer_plugin" not in sys.modules
    if first:
        sys.path.insert(0, str(folder.parent))
        import graphormer_plugin
        check()
    for _ in range(2):
        utils.import_user_module(Namespace(user_dir=str(folder)))
    check()
    names = [name for name in sys.modules if name.endswith("graph_prediction")]
    assert names == ["graphormer_plugin.tasks.graph_prediction"], names
    sys.exit()
"""


@pytest.mark.slow
def test_every_way_of_importing_registers_once(tmp_path):
    """The ways are --user-dir, and --user-dir after an import."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTS, ROOT / "graphormer_plugin"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "field, featuriser, message",
    [
        ("pos", "ogb", "reads positions of atoms, which these graphs do not have"),
        ("edge_index", "atoms", "has no bonds, .*--radius joins near atoms"),
    ],
)
def test_data_without_what_a_model_reads(loaded, field, featuriser, message):
    task = loaded("valid")
    task.store.featuriser = featuriser
    task.batch_spec = BatchSpec(frozenset({"x", "node_mask", field}))
    with pytest.raises(ValueError, match=message):
        task.give_fields()
