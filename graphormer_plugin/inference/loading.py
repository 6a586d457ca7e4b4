"""Make a predictor of checkpoints and of the files beside them."""

import os
from pathlib import Path

import torch

from graphormer_plugin.data.errors import listed, named_damage
from graphormer_plugin.data.files import PathName, home_path
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.graphs.start_molecules import read_seen
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.sources.user_code import import_user_data
from graphormer_plugin.data.tables.options import MAX_ATOMS
from graphormer_plugin.estimators.array_file import weights_digest
from graphormer_plugin.estimators.domain import domain_file, read_domain
from graphormer_plugin.estimators.gp import HEAD_FILE, read_estimator
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.checkpoint import (
    Checkpoint,
    invalid_checkpoint_errors,
    read_checkpoint,
)
from graphormer_plugin.inference.embedding import widths
from graphormer_plugin.inference.member import Member
from graphormer_plugin.inference.model_folder import ModelFolder, models_named
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.models import ARCHITECTURES, GraphModel, model_from_options

# A fork lacks the other threads of OpenMP that its parent had started, and would wait for them.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def load(
    path: PathName | ModelFolder,
    user_data_dir: PathName | None = None,
    head: PathName | None = HEAD_BESIDE_CHECKPOINT,
    domain: bool = True,
) -> Predictor:
    """Load a checkpoint of this package, or the models of a folder with ``models.json``. A
    model computes in the precision of its weights, float32 at least.

    Args:
        path: the checkpoint, the folder or its content, or the name of a model that comes
            with the package.
        head: file of a head on a checkpoint's vectors; ``beside`` takes ``head.npz``
            beside each checkpoint where it exists, None takes no head.
        domain: whether to read the file of `domain_file` beside a checkpoint without
            head, where it exists.

    Raises:
        OSError: there is no such file.
        ValueError: a file is damaged or is of another checkpoint, or the models predict
            different things.
    """
    models = path if isinstance(path, ModelFolder) else models_named([path])
    if user_data_dir is not None:
        import_user_data(home_path(user_data_dir))
    shared: dict[str, GraphModel] = {}
    loaded = {
        path: load_member(path, head, domain, shared)
        for path in dict.fromkeys(models.checkpoints)
    }
    return ensemble([loaded[path] for path in models.checkpoints], models)


def ensemble(members: list[Member], models: ModelFolder) -> Predictor:
    """Members that predict together, as the content of a folder says."""
    for other in members[1:]:
        check_agreement(members[0], other)
    targets = members[0].targets
    names = targets.names
    with named_damage(f"{models.source} has other targets than {listed(names)}"):
        scale = models.scale(targets)
        interval = models.intervals(targets)
        scales = [Scale.IDENTITY] * len(names)
        for name in models.log_targets:
            scales[names.index(name)] = Scale.of(name)
    seen = models.seen and read_seen(models.seen)
    predictor = Predictor(members, scale, scales, interval, seen=seen)
    targets = predictor.targets
    cuts = (models.cut_off.get(name, 0.5) for name in targets.names)
    predictor.targets = targets.changed(cut_off=cuts)
    return predictor


def check_agreement(first: Member, other: Member) -> None:
    """Raise ValueError unless both models predict the same from the same features."""
    parts = ("name", "unit", "kind", "num_classes", "classes")
    ours, theirs = (
        {part: [getattr(t, part) for t in member.targets.targets] for part in parts}
        | {"extra columns": member.extra_columns, "featuriser": member.featuriser.name}
        for member in (first, other)
    )
    for part, value in ours.items():
        if theirs[part] != value:
            raise ValueError(
                f"{other.name} and {first.name} predict different things: {part} "
                f"{theirs[part]!r} and {value!r}"
            )


def load_member(
    path: Path,
    head: PathName | None,
    domain: bool,
    shared: dict[str, GraphModel],
) -> Member:
    """Load a checkpoint and the files beside it; see `load`.

    Args:
        shared: models of the members before this one, which gets theirs where it is
            equal: replicates of a head have one start, and compute its vectors once.
    """
    checkpoint = read_checkpoint(path)
    with invalid_checkpoint_errors(path):
        owner = weights_digest(checkpoint.weights)
    key = repr((owner, checkpoint.state["cfg"]["model"], *checkpoint[1:]))
    model = shared[key] = shared.get(key) or load_model(checkpoint, path)
    task_state = checkpoint.state["task_state"]
    with invalid_checkpoint_errors(path):
        parts = tuple(task_state.get("vectors", ()))
        widths(model, checkpoint.targets.num_outputs, parts)
        max_atoms = int(checkpoint.state["cfg"]["task"].get("max_atoms", MAX_ATOMS))
    head = head_file(path, head)
    beside = domain_file(path)
    has_domain = domain and head is None and beside.exists()
    member = Member(
        model,
        checkpoint.schema,
        checkpoint.targets,
        featuriser_named(task_state.get("featuriser", "")),
        max_atoms,
        head=None if head is None else read_estimator(head, owner),
        domain=read_domain(beside, owner) if has_domain else None,
        arch=checkpoint.arch,
        name=str(path),
        vector_parts=parts,
    )
    if member.head is not None and member.head.vector_width:
        with named_damage(f"{head} does not fit {path}"):
            width = member.head.vector_width
            if member.vector_width(member.head.layers) != width:
                raise ValueError(f"layers {member.head.layers!r}, but {width} numbers")
    return member


def usable_device(name: str | None) -> torch.device:
    """The device of that name, by default a GPU where there is one; ValueError if it
    cannot be used here."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # fails on meta, without values
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {name} cannot be used: {reason}") from None
    return device


def head_file(checkpoint: PathName, head: PathName | None) -> Path | None:
    """The file of the head that `load` takes, or None."""
    if head == HEAD_BESIDE_CHECKPOINT:
        beside = Path(checkpoint).with_name(HEAD_FILE)
        return beside if beside.exists() else None
    return None if head is None else Path(head)


@torch.random.fork_rng(devices=[])  # the weights that it draws first are replaced
def load_model(checkpoint: Checkpoint, path: PathName) -> GraphModel:
    """The model of a checkpoint, with its weights; ``path`` is for messages."""
    # fairseq's own architectures would open files that the checkpoint names.
    if checkpoint.arch not in ARCHITECTURES:
        raise ValueError(
            f"{path} is of architecture {checkpoint.arch!r}, which is not registered; give "
            "the folder that registers it as user_data_dir (--user-data-dir)"
        )
    with invalid_checkpoint_errors(path):
        options = checkpoint.state["cfg"]["model"]
        model = model_from_options(options, checkpoint.schema, checkpoint.targets)
        dtype = torch.float32
        for weight in checkpoint.weights.values():
            dtype = torch.promote_types(dtype, weight.dtype)
        model.to(dtype).load_state_dict(checkpoint.weights, strict=True)
    return model
