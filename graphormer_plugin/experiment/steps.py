"""The steps of an experiment; each leaves a file, and is done once."""

from pathlib import Path

import numpy as np

from graphormer_plugin import hub
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.experiment.plan import (
    TITLES,
    TOGETHER,
    Experiment,
    fitted_rows,
)
from graphormer_plugin.experiment.references import forest_predictions
from graphormer_plugin.experiment.results import (
    Run,
    read_arrays,
    read_prediction,
    save_arrays,
    save_prediction,
)
from graphormer_plugin.experiment.scores import MAIN, main_score, spread
from graphormer_plugin.experiment.search import search
from graphormer_plugin.experiment.settings import FINETUNE, HEAD, SCRATCH, Training
from graphormer_plugin.experiment.splits import scored_labels
from graphormer_plugin.experiment.starts import start_state
from graphormer_plugin.experiment.training import (
    BEST,
    COMMANDS_FILE,
    LAST,
    shell_lines,
)
from graphormer_plugin.finetune.fit_head import (
    BLOCKS,
    fit_on_features,
    save_training_domain,
    training_sample,
)
from graphormer_plugin.inference.array_file import weights_digest
from graphormer_plugin.inference.checkpoint import write_file
from graphormer_plugin.inference.domain import domain_file
from graphormer_plugin.inference.head import HEAD_FILE, Head
from graphormer_plugin.inference.values import Prediction, combined

PREDICTIONS = "predictions.npz"
FOREST_STEPS = 10  # of the progress bar; an epoch is one


def model_files(model: str) -> list[str]:
    """What predictions with a model need, in its folder."""
    return [BEST, HEAD_FILE if model == HEAD else domain_file(BEST).name]


def is_made(save_dir: Path, model: str) -> bool:
    """Whether a model and its predictions are there."""
    names = [*model_files(model), PREDICTIONS]
    return all((save_dir / name).exists() for name in names)


def search_options(experiment: Experiment) -> Training:
    """Options of the trainings, searched on the first split."""
    settings = experiment.settings
    model = SCRATCH if experiment.start is None else FINETUNE
    base = settings.training(model)

    def begin(trials: int) -> None:
        experiment.bar.total += trials * base.epochs

    def train(options: Training, name: str) -> None:
        experiment.bar.set_description(name.replace("/", ", "))
        words = experiment.line(0, model, 0, options)
        words[words.index("--save-dir") + 1] = name
        try:
            experiment.train(words, options.epochs)
        except DatasetError as error:
            experiment.warn(f"{name} failed: {error}")
            raise

    return search(
        experiment.folder,
        base,
        settings.trials,
        experiment.metric(0),
        train,
        begin,
        seed=settings.seed,
        keep_lr=settings.lr is not None,
        freezes=model == FINETUNE,
    )


def write_commands(experiment: Experiment) -> None:
    """Write the lines of fairseq-train that run."""
    lines = [experiment.line(*which) for which in experiment.trainings()]
    comments = []
    if HEAD in experiment.models:
        comments.append("Heads (head.npz) are fitted by graphormer-train itself.")
    with atomic_write(experiment.folder / COMMANDS_FILE, "w", encoding="utf-8") as file:
        file.write(shell_lines(lines, comments))


def forest_file(folder: Path, run: int) -> Path:
    """Predictions of the random forest of a run."""
    return folder / f"replicate{run + 1}/forest/{PREDICTIONS}"


def forest(experiment: Experiment, run: int) -> Prediction:
    """Predictions of the random forest, computed or read; those of test are what all
    files show of it, and the others are NaN."""
    table, path = experiment.table, forest_file(experiment.folder, run)
    if not path.exists():
        title = experiment.settings.run_name(run + 1)
        experiment.bar.set_description(f"{title}, random forest")
        parts = list(experiment.features().values())
        split = experiment.splits[run]
        rows, test = fitted_rows(split), split["test"]
        found = forest_predictions(
            np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe"),
            table.labels,
            rows,
            test,
            kind=table.targets.kind,
            trees=experiment.settings.trees,
            seed=experiment.settings.seed + run,
            classes=table.targets.num_classes,
            weights=experiment.label_weights(rows),
        )
        values = np.full((len(table.labels), found.shape[1]), np.nan)
        values[test] = found
        save_prediction(path, Prediction(values))
        experiment.bar.update(FOREST_STEPS)
    return read_prediction(path)


def model_predictions(
    experiment: Experiment, run: int, model: str, member: int
) -> Prediction:
    """Predictions of a model, which is trained first if it is not."""
    save_dir = experiment.folder / experiment.save_dir(run, model, member)
    path = save_dir / PREDICTIONS
    if not is_made(save_dir, model):
        title = f"{experiment.settings.run_name(run + 1)}, {TITLES[model]}"
        if model == HEAD:
            experiment.bar.set_description(title)
            found = head_predictions(experiment, run, save_dir)
            experiment.bar.update(experiment.cost(HEAD))
        else:
            experiment.bar.set_description(f"{title} {member + 1}")
            words = experiment.line(run, model, member)
            best = save_dir / BEST
            if not best.exists():  # a training that goes on would not write it again
                (save_dir / LAST).unlink(missing_ok=True)
            if not (best.exists() and path.exists()):
                experiment.train(words, experiment.options(model).epochs)
            smiles = experiment.smiles(experiment.splits[run]["train"])
            save_training_domain(best, smiles, experiment.device)
            predictor = hub.load(best).to(experiment.device)
            table = experiment.table
            found = predictor.estimate(table.smiles, extra=table.extra)
        save_prediction(path, found)
    return read_prediction(path)


def head_predictions(experiment: Experiment, run: int, save_dir: Path) -> Prediction:
    """Fit a head on the vectors of the start, and predict.

    The head that is kept is fitted to the training and validation molecules. Predictions
    of the latter come from one that is fitted to the training molecules alone.
    """
    table, split, start = experiment.table, experiment.splits[run], experiment.start
    seed = experiment.settings.seed + run
    state = start_state(start)
    task_state = state["task_state"]
    if task_state.get("featuriser") not in ("ogb", "ogb_largest_fragment"):
        raise ValueError(f"{start.path} reads other features than those of OGB")
    task_state["featuriser"] = table.featuriser
    state["cfg"]["task"]["max_atoms"] = experiment.settings.max_atoms
    save_dir.mkdir(parents=True, exist_ok=True)
    write_file(state, save_dir / BEST)
    vectors = experiment.folder / "data/vectors.npz"  # all replicates have them
    if not vectors.exists():
        predictor = hub.load(save_dir / BEST, head=None).to(experiment.device)
        save_arrays(vectors, {"vectors": predictor.embed(table.smiles)})
    raw = read_arrays(vectors) | experiment.features()

    def fit(rows: np.ndarray) -> Head:
        weights = experiment.label_weights(rows)
        of_rows = None if weights is None else weights[rows]
        rows = rows[training_sample(table.labels[rows], seed, of_rows)]
        return fit_on_features(
            {name: values[rows] for name, values in raw.items()},
            [experiment.molecules[row] for row in rows],
            table.labels[rows],
            table.targets,
            weights_digest(state["model"]),
            seed=seed,
            weights=None if weights is None else weights[rows],
            blocks=[*BLOCKS, "extra"] if table.extra_columns else BLOCKS,
            extra_columns=table.extra_columns,
        )

    first, head = fit(split["train"]), fit(fitted_rows(split))
    found = head.predict_features(raw)
    valid = split["valid"]
    of_valid = first.predict_features({name: all_[valid] for name, all_ in raw.items()})
    for all_rows, rows in zip(found, of_valid, strict=True):
        all_rows[valid] = rows
    head.save(save_dir / HEAD_FILE)
    return found


def choose(
    experiment: Experiment, run: Run, number: int, members: dict[str, list[Prediction]]
) -> None:
    """Choose what predicts in a run by its validation metric: a kind of models, or all
    together, the mean of whose predictions counts, each kind as much as the other.

    Trainings are not chosen without the head beside them: validation molecules flatter the
    checkpoints that they have selected, and on test molecules the mean of both is better
    (examples/small_data).

    Args:
        experiment: What is done.
        run: Gets the predictions of each kind, and the choice.
        number: Of the run.
        members: Predictions of the models of each kind.
    """
    kind, valid = experiment.table.targets.kind, run.split["valid"]
    labels = scored_labels(experiment.table, run.split, "valid")
    metric = MAIN[kind]
    candidates = {TITLES[model]: [model] for model in members}
    if len(members) > 1:
        candidates[TOGETHER.join(candidates)] = list(members)
    found = {}
    for title, models in candidates.items():
        predictions = [one for model in models for one in members[model]]
        run.predictions[title] = combined(predictions, shares(models, members))
        values = run.predictions[title].values[valid]
        found[title] = main_score(kind, values, labels)
    best, *others = [
        title
        for title, models in candidates.items()
        if HEAD in models or HEAD not in members
    ]
    for title in others:
        if metric.is_better(found[title], found[best]):
            best = title
    run.chosen = best
    run.calibrates = candidates[best] != [HEAD]
    run.checkpoints = [
        f"{experiment.save_dir(number, model, member)}/{BEST}"
        for model in candidates[best]
        for member in range(len(members[model]))
    ]
    run.weights = shares(candidates[best], members)
    shown = {title: spread([score], metric.name) for title, score in found.items()}
    run.reason = f"{best}, valid {metric.name} {shown.pop(best)}"
    rest = [f"{title}: {score}" for title, score in shown.items()]
    if rest:
        run.reason += f" ({', '.join(rest)})"


def shares(models: list[str], members: dict[str, list[Prediction]]) -> list[float]:
    """How much each model counts, so that all kinds count the same."""
    return [1 / len(models) / len(members[one]) for one in models for _ in members[one]]
