"""--cuda-graphs, with a twin of torch's capture that runs on a CPU."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from graphormer_plugin.modules.batch_norm import running_statistics_kept
from graphormer_plugin.tasks import _cuda_graphs, graph_prediction
from graphormer_plugin.tasks._cuda_graphs import GraphedForward, check_cuda_graphs
from graphormer_plugin.tasks.energy_forces import EnergyForcesTask
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask
from graphormer_plugin.tasks.graph_prediction_with_flag import (
    GraphPredictionWithFlagTask,
)
from graphormer_plugin.tasks.is2re import IS2RETask
from support.architectures import make_batch, rates_of, tiny_model
from support.training import logged

# Two and five graphs occur often, three once.
ORDER = [*([[0, 2], [3, 4], [1, 2, 3, 4, 5], [5, 0]] * 4), [0, 1, 2], [2, 3]]


def warm_up_passes(module, inputs):
    """As torch's make_graphed_callables has them: they change buffers."""
    for _ in range(3):
        module(*inputs)


def twin_of_capture(module, inputs, allow_unused_input, pool):
    """torch.cuda.make_graphed_callables: inputs, output and gradients are in tensors that
    every replay overwrites, and autograd gets views of these."""
    assert torch.cuda.graph.keywords == {"capture_error_mode": "thread_local"}
    assert allow_unused_input and pool == "pool"
    warm_up_passes(module, inputs)
    weights = tuple(module.parameters())
    compute = module.forward
    static = {"gradients": [torch.full_like(weight, torch.nan) for weight in weights]}

    class Replay(Function):
        @staticmethod
        def forward(ctx, *tensors):
            for own, given in zip(inputs, tensors):
                own.copy_(given)
            with torch.enable_grad():
                static["graph"] = compute(*inputs)
            output = static.setdefault("output", static["graph"].detach().clone())
            return output.copy_(static["graph"].detach()).detach()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            gradients = torch.autograd.grad(static["graph"], weights, grad)
            for own, given in zip(static["gradients"], gradients):
                own.copy_(given)
            views = [own.detach() for own in static["gradients"]]
            return *[None] * len(inputs), *views

    module.forward = lambda *tensors: Replay.apply(*tensors, *weights)
    return module


@pytest.fixture
def captured(monkeypatch):
    """Modules that were captured."""
    modules = []

    def capture(module, inputs, **options):
        modules.append(module)
        return twin_of_capture(module, inputs, **options)

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    return modules


def models_of(arch, **options):
    """A model and its twin with graphs."""
    torch.manual_seed(0)
    steady = dict.fromkeys(rates_of(arch), 0.0)
    model = tiny_model(arch, **{**steady, **options}).double().train()
    graphed = copy.deepcopy(model)
    graphed.forward = GraphedForward(graphed)
    return model, graphed


def batch_of(model, graphs):
    return make_batch(model, graphs) | {"seed": torch.tensor(graphs) * 977}


def trained(model, update_freq=1):
    """Losses of a training, and what it leaves."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-5)
    losses = []
    for number, graphs in enumerate(ORDER):
        loss = model(batch_of(model, graphs)).square().sum()
        loss.backward()
        losses.append(loss.detach())
        if number % update_freq == update_freq - 1:
            optimiser.step()
            optimiser.zero_grad()
    return torch.stack(losses), model.state_dict()


@pytest.mark.parametrize("update_freq", [1, 2, 4])
@pytest.mark.parametrize("arch", ["grpe_tiny", "gt_zinc", "gin", "gps_zinc"])
def test_a_training_has_the_same_losses_and_weights(arch, update_freq, captured):
    model, graphed = models_of(arch)
    context = torch.cuda.graph
    losses, state = trained(model, update_freq)
    found, state_found = trained(graphed, update_freq)
    assert captured and torch.cuda.graph is context
    assert sum(graphed.forward.occurrences.values()) == len(ORDER)
    torch.testing.assert_close(found, losses, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state_found, state, rtol=0, atol=1e-12)


def test_only_frequent_buckets_have_graphs(captured, monkeypatch):
    _, model = models_of("gine")
    trained(model)
    often = [n for n in model.forward.occurrences.values() if n >= 3]
    assert len(often) > 1
    assert len(often) == len(captured) < len(model.forward.occurrences)
    monkeypatch.setattr(_cuda_graphs, "MAX_GRAPHS", 1)
    _, model = models_of("gine")
    trained(model)
    assert len(model.forward.graphs) == 1


def test_evaluation_and_batches_that_do_not_count_are_eager(captured):
    _, model = models_of("gine")
    batch = make_batch(model, [0, 2])
    with running_statistics_kept():
        model(batch)
    with torch.no_grad():
        model(batch)
    model.eval()(batch)
    assert not model.forward.occurrences


@pytest.mark.parametrize("level", ["node", "edge"])
def test_labels_of_nodes_and_edges(level, captured):
    model, graphed = models_of("grpe_tiny")
    for one in (model, graphed):
        one.level = level
        one.project = torch.nn.Identity()
    batch = make_batch(model, [0, 2]) | {"ends": torch.tensor([[[0, 1]], [[1, 2]]])}
    expected = model(batch)
    for _ in range(4):
        found = graphed(batch)
    assert len(captured) == 1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_model_that_cannot_be_captured(captured, monkeypatch, capsys):
    def capture(*_, **__):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    _, model = models_of("gine")
    with pytest.raises(SystemExit):
        trained(model)
    (line,) = capsys.readouterr().err.splitlines()
    assert "--cuda-graphs: this model cannot be captured; leave it out (oper" in line
    with pytest.raises(ValueError, match="--checkpoint-activations"):
        models_of("grpe_tiny", checkpoint_activations=True)


@pytest.mark.parametrize(
    "task, gpu, options, message",
    [
        (GraphPredictionTask, False, {}, "only a GPU"),
        (GraphPredictionTask, True, {"cpu": True}, "only a GPU"),
        (GraphPredictionTask, True, {"fp16": True}, "not --fp16"),
        (GraphPredictionTask, True, {"amp": True}, "not --fp16 or --amp"),
        (GraphPredictionTask, True, {"processes": 2}, "one process"),
        (GraphPredictionWithFlagTask, True, {}, "--task name"),
        (EnergyForcesTask, True, {}, "--task name"),
        (IS2RETask, True, {}, "--task name"),
        (GraphPredictionTask, True, {}, ""),
    ],
)
def test_what_goes_with_graphs(task, gpu, options, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    common = {"cpu": False, "fp16": False, "amp": False} | options
    run = SimpleNamespace(
        common=SimpleNamespace(**common),
        distributed_training=SimpleNamespace(
            distributed_world_size=options.get("processes", 1)
        ),
        task=SimpleNamespace(_name="name"),
    )
    if not message:
        check_cuda_graphs(run, task.plain_passes)
        return
    with pytest.raises(ValueError, match=f"--cuda-graphs: .*{message}"):
        check_cuda_graphs(run, task.plain_passes)


@pytest.mark.parametrize("flags", ["", "--update-freq 2", "--bf16"])
def test_fairseq_train(flags, train, captured, monkeypatch, fresh_fairseq):
    """fairseq's trainer around the twin: bfloat16 differs by its rounding."""
    monkeypatch.setattr(graph_prediction, "check_cuda_graphs", lambda *_: None)
    words = f"--max-epoch 4 --dropout 0 --attention-dropout 0 {flags}".split()
    losses = []
    for name, more in (("eager", ()), ("graphs", ("--cuda-graphs",))):
        epochs = logged(train(name, *words, *more), "train")
        losses.append([epoch["train_loss"] for epoch in epochs])
    assert len(captured) > 0 and len(losses[0]) == 4
    assert losses[1] == pytest.approx(
        losses[0], rel=2e-2 if flags == "--bf16" else 1e-5
    )


def test_a_training_without_a_gpu_is_refused(train, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        train("run", "--cuda-graphs")
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--cuda-graphs: only a GPU has them; leave it out" in line
    assert not list((tmp_path / "run").iterdir())
