"""Models of molecules as estimators of scikit-learn, which predict SMILES.

>>> from graphormer_plugin.sklearn import MoleculeRegressor
>>> model = MoleculeRegressor().fit(smiles, y)           # doctest: +SKIP
>>> mean, std = model.predict(others, return_std=True)   # doctest: +SKIP
>>> model.save("my-model")                               # doctest: +SKIP

They train with the steps of ``graphormer-train``, and `save` writes a folder of its kind.
"""

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas
from numpy.typing import NDArray
from pandas.api.types import infer_dtype
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

import graphormer_plugin.tasks  # noqa: F401  (registers them with fairseq)
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.graphs.start_molecules import START_HAS_SEEN, has_seen
from graphormer_plugin.data.store.featurise import RowReader
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators.domain import domain_file
from graphormer_plugin.estimators.gp import HEAD_FILE
from graphormer_plugin.estimators.kernels import as_mol
from graphormer_plugin.estimators.prediction import Estimate
from graphormer_plugin.inference.loading import load, usable_device
from graphormer_plugin.inference.model_folder import MODELS_FILE, read_folder
from graphormer_plugin.inference.molecules import Molecules, read_rows
from graphormer_plugin.inference.prediction_columns import (
    OutputColumn,
    free_names,
    prediction_columns,
)
from graphormer_plugin.workbench.experiment.fit import fit_folder
from graphormer_plugin.workbench.experiment.labelled_molecules import LabelledMolecules
from graphormer_plugin.workbench.experiment.settings import (
    FITTED,
    HEAD,
    MODELS,
    MOST_SEED,
    Settings,
)
from graphormer_plugin.workbench.fitting.fit_gp import unfit_targets
from graphormer_plugin.workbench.predictions.table_run import REASON

NO_LABELS = ("complex", "date", "datetime", "datetime64", "timedelta", "timedelta64")
WEIGHT_COLUMN = "sample_weight"  # in the table that fairseq-train reads


@dataclass(repr=False, eq=False)
class MoleculeEstimator:
    """Base of `MoleculeRegressor` and `MoleculeClassifier`.

    Args:
        model: ``head``, ``trees``, ``finetune``, ``scratch`` or ``auto``, as of
            ``graphormer-train``. A tenth of the molecules chooses the epoch of a training,
            and the model of ``auto``.
        start: pre-trained checkpoint, or name of a published model; empty: the model that
            comes with the package.
        epochs, lr: options of a training; None: defaults of the command.
        ensemble: models of a training, whose mean counts.
        largest_fragment: read the largest fragment of each molecule, without salts.
        ignore_stereo: read molecules without marks of stereocentres and double bonds.
        unit: unit of the targets, which the folder of `save` remembers.
        random_state: seed, a generator of NumPy, or None for a random seed.
        device: cpu or cuda; empty: a GPU if there is one.
        errors: ``coerce``: a molecule that cannot be read is left out of the training with
            a warning, and its prediction is NaN; ``raise``: ValueError.

    Attributes:
        predictor_: models of the fit, see `hub.load`.
        target_names_: columns of y.
        learned_: numbers of the columns with enough different labels; predictions of the
            others are NaN.
        left_out_: reason why a row of X is not a training molecule, by its number.
    """

    model: str = HEAD
    _: KW_ONLY
    start: str = ""
    epochs: int | None = None
    lr: float | None = None
    ensemble: int = 1
    largest_fragment: bool = False
    ignore_stereo: bool = False
    unit: str = ""
    random_state: Any = 1
    device: str = ""
    errors: str = "coerce"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.target_tags.multi_output = True
        tags.input_tags.two_d_array = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on molecules. After an error, the estimator is not fitted.

        Args:
            X: SMILES: a list, an array, a Series, or a table with this column alone.
            y: labels [n] or [n, T], NaN or None where missing; a column without two
                different labels is left out with a warning if there are others.
            sample_weight: weights of the molecules [n], 0 or more; None: all the same.

        Raises:
            ValueError: there is nothing to learn, a parameter is wrong, or with
                ``errors="raise"`` a molecule cannot be read.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # an earlier fit
        smiles = _smiles(X)
        targets = _targets(y)
        if len(smiles) != len(targets):
            raise ValueError(f"{len(smiles)} molecules, but {len(targets)} rows of y")
        weights = np.ones(len(smiles))
        if sample_weight is not None:
            weights = np.asarray(sample_weight, np.float64)
        if weights.shape != (len(smiles),) or not (weights >= 0).all():
            raise ValueError("sample_weight: expected a number >= 0 for each molecule")
        labels, schema = self._encode(targets)
        rows = np.flatnonzero(~np.isnan(labels).all(1) & (weights > 0))
        settings = self._settings()
        featuriser = settings.featuriser
        most = settings.max_atoms
        reader = RowReader(featuriser.read, most, featuriser=featuriser)
        molecules, rows, left_out = self._read(smiles, rows, reader)
        labels = labels[rows]
        weights = weights[rows]
        unfit = unfit_targets(labels, schema.kinds)
        learned = [target for target in range(labels.shape[1]) if target not in unfit]
        if not learned:
            raise ValueError("y has fewer than 2 different labels, nothing to learn")
        if unfit:
            names = ", ".join(schema.names[target] for target in unfit)
            warnings.warn(f"too few different labels to learn {names}", stacklevel=2)
        weighted: dict[str, Any] = {}
        if sample_weight is not None:
            settings = replace(settings, weight_column=WEIGHT_COLUMN)
            cells = [*map(repr, weights.tolist())]
            weighted = {"weights": weights, "others": {WEIGHT_COLUMN: cells}}
        labelled = LabelledMolecules(
            sources=molecules.sources,
            labels=labels[:, learned],
            bounds=np.zeros((len(labels), len(learned))),
            extra=np.empty((len(labels), 0)),
            targets=schema.select(learned),
            **weighted,
        )
        # A tenth chooses the epoch of a training.
        count = 0 if settings.model in FITTED else max(1, len(labels) // 10)
        order = np.random.default_rng(settings.seed).permutation(len(labels))
        valid, train = np.split(order, [count])
        split = {"train": np.sort(train), "valid": np.sort(valid), "test": order[:0]}
        with tempfile.TemporaryDirectory() as folder:
            settings = replace(settings, folder=folder)
            fit_folder(settings, labelled, split, molecules)
            self._take(folder)
        self.target_names_ = schema.names
        self.learned_ = learned
        self.left_out_ = left_out
        self.one_column_ = np.ndim(y) == 1
        return self

    def predict_table(self, X: Any) -> pandas.DataFrame:
        """The columns that ``graphormer-predict`` writes: predictions, their spread,
        ``in_domain``, ``start_has_seen`` and ``reason``, with the index of a Series or table
        X. As there, a name that a target has already ends in ``_predicted``."""
        predicted, rows, reasons = self._estimate(X)
        of = self.predictor_
        columns = prediction_columns(of.targets, *predicted, interval=of.interval)
        if of.seen is not None:
            smiles = _smiles(X)
            seen = has_seen(of.seen, [as_mol(smiles[row]) for row in rows])
            columns.append(OutputColumn(START_HAS_SEEN, seen.tolist()))
        names = free_names([*(column.name for column in columns), REASON], [])
        table = pandas.DataFrame({n: output.texts for n, output in zip(names, columns)})
        numbers = [n for n, output in zip(names, columns) if output.text]
        table[numbers] = table[numbers].apply(pandas.to_numeric)
        table = table.set_axis(rows).reindex(range(len(X)))
        table[names[-1]] = [reasons.get(row, "") for row in range(len(X))]
        return table.set_axis(X.index) if hasattr(X, "iloc") else table

    def score(self, X: Any, y: Any) -> float:
        """R², or accuracy of classes, over the molecules with a label and a prediction; the
        mean over the columns of y that have two of them."""
        labels = _targets(y)
        predicted = pandas.DataFrame(self.predict(X))
        scores = []
        for name, values in zip(labels, predicted.to_numpy().T, strict=True):
            is_scored = labels[name].notna().to_numpy() & ~pandas.isna(values)
            if is_scored.sum() > 1:
                column = labels[name].to_numpy()[is_scored]
                scores.append(
                    self._score(column, values[is_scored].astype(column.dtype))
                )
        return float(np.mean(scores)) if scores else np.nan

    def save(self, folder: str | Path) -> None:
        """Write the models to a new folder, which ``graphormer-predict``, `hub.load` and
        `load` read. It has no table of the training molecules; examples/predicting says
        what their vectors and counts in a head give away.

        Raises:
            FileExistsError: there is a folder of that name.
        """
        check_is_fitted(self)
        Path(folder).mkdir(parents=True)
        for name, content in self._files.items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(Path(folder, name)) as file:
                file.write(content)

    @classmethod
    def load(cls, folder: str | Path, **parameters: Any) -> Self:
        """Read a folder of `save` or of ``graphormer-train``.

        Args:
            folder: has a ``models.json``.
            parameters: parameters of another fit.

        Raises:
            OSError, ValueError: see `hub.load`; or the models predict another kind of
                targets.
        """
        self = cls(**parameters)
        self._take(folder)
        targets = self.predictor_.targets
        if not {*targets.kinds} <= {*cls._kinds}:
            raise ValueError(f"{folder} predicts {targets.kinds_text} targets")
        self.target_names_ = targets.names
        self.left_out_ = {}
        self.learned_ = list(range(len(targets.names)))
        self.one_column_ = len(targets.names) == 1
        self._classes = [  # for a classifier
            np.array(target.classes or range(len(target.class_labels)))
            for target in targets.targets
        ]
        return self

    def _take(self, folder: str | Path) -> None:
        """Load the models of a folder, and keep the files that predictions need."""
        models = read_folder(folder)
        paths = []
        self.predictor_ = load(models).to(usable_device(self.device))
        for path in models.checkpoints:
            paths += [path, path.with_name(HEAD_FILE), domain_file(path)]
        paths = [*filter(Path.exists, paths), Path(folder, MODELS_FILE)]
        paths += filter(None, [models.seen])
        self._files = {p.relative_to(folder): p.read_bytes() for p in paths}

    def _settings(self) -> Settings:
        """Options of the steps of ``graphormer-train``; they get a folder later."""
        for name, words in {"errors": ("coerce", "raise"), "model": MODELS}.items():
            if (value := getattr(self, name)) not in words:
                raise ValueError(f"{name} is {value!r}, expected {' or '.join(words)}")
        parameters = self.get_params()
        del parameters["errors"], parameters["unit"]
        seed = parameters.pop("random_state")
        if not isinstance(seed, Integral):  # scikit-learn draws it so
            seed = int(check_random_state(seed).randint(MOST_SEED))
        weights = parameters.pop("class_weight", None)
        if isinstance(weights, Mapping):
            texts = [str(weights.get(label, 1)) for label in np.hstack(self._classes)]
            weights = ",".join(texts)
        parameters["class_weights"] = weights or ""
        return Settings(table="", folder="", seed=seed, **parameters)

    def _read(
        self, smiles: Sequence[str], rows: NDArray[np.int64], reader: RowReader
    ) -> tuple[Molecules, NDArray[np.int64], dict[int, str]]:
        """Molecules of some rows, the rows that have a molecule, and for the others the
        reason."""
        molecules, failed = read_rows(reader, [smiles[row] for row in rows])
        reasons = {int(rows[index]): text for index, text in failed.items()}
        if reasons:
            row = min(reasons)
            text = f"{len(reasons):,} of {len(rows):,} molecules cannot be read "
            text += f"(first: row {row}, {smiles[row]!r}: {reasons[row]})"
            if self.errors == "raise":
                raise ValueError(text)
            warnings.warn(text, stacklevel=4)
        chunk = molecules.chunk
        return molecules, rows[[] if chunk is None else chunk.row], reasons

    def _estimate(self, X: Any) -> tuple[Estimate, NDArray[np.int64], dict[int, str]]:
        """Predictions, the numbers of their rows of X, and reasons of the other rows."""
        check_is_fitted(self)
        smiles = _smiles(X)
        rows = np.arange(len(smiles))
        reader = self.predictor_.reader()
        molecules, rows, reasons = self._read(smiles, rows, reader)
        return self.predictor_.together(molecules), rows, reasons

    def _spread_out(self, rows: NDArray, values: NDArray, count: int) -> NDArray:
        """Values of the learned columns [rows, T] among all rows and columns; NaN in the
        others. [n] if y had a single dimension."""
        result = np.full((count, len(self.target_names_)), np.nan, values.dtype)
        result[np.ix_(rows, self.learned_)] = values
        return result[:, 0] if self.one_column_ else result


@dataclass(repr=False, eq=False)
class MoleculeRegressor(MoleculeEstimator, RegressorMixin, BaseEstimator):
    """Predicts numbers; see `MoleculeEstimator` for the other parameters.

    Args:
        log_targets: columns that are learned as decadic logarithms; ``["auto"]``: the labels
            choose the scale of each; ``["none"]``: all are learned as they are.
    """

    _: KW_ONLY
    log_targets: Sequence[str] = ("auto",)

    _kinds = (Kind.REGRESSION,)
    _score = staticmethod(r2_score)

    def _encode(self, targets: pandas.DataFrame) -> tuple[NDArray, TargetSchema]:
        labels = targets.to_numpy(np.float64, na_value=np.nan)
        schema = TargetSchema.of(list(targets), self.unit)
        schema.check(labels)
        return labels, schema

    def predict(
        self, X: Any, return_std: bool = False
    ) -> NDArray | tuple[NDArray, NDArray]:
        """Predict molecules.

        Args:
            X: see `fit`.
            return_std: also give the standard deviation of a measured label.

        Returns:
            values [n], or [n, T] for such a y, NaN where `predict_table` has a reason; and
            standard deviations in the same form.

        Raises:
            ValueError: a single trained model has no spread.
        """
        (values, std, *_), rows, _ = self._estimate(X)
        values = self._spread_out(rows, values, len(X))
        if not return_std:
            return values
        if std is None:
            raise ValueError("a single trained model has no spread; give ensemble=3")
        return values, self._spread_out(rows, std, len(X))


@dataclass(repr=False, eq=False)
class MoleculeClassifier(MoleculeEstimator, ClassifierMixin, BaseEstimator):
    """Predicts the classes of one or several columns, which may lack labels; see
    `MoleculeEstimator` for the other parameters.

    Args:
        class_weight: ``balanced``: classes weigh in inverse proportion to their labels; or
            weights by class, 1 where none is given; None: labels weigh the same.
    """

    _: KW_ONLY
    class_weight: Any = None

    _kinds = (Kind.BINARY, Kind.MULTICLASS)
    _score = staticmethod(lambda labels, predicted: np.mean(labels == predicted))

    def _encode(self, targets: pandas.DataFrame) -> tuple[NDArray, TargetSchema]:
        labels = np.full(targets.shape, np.nan)
        self._classes = []
        words = []
        for target, name in enumerate(targets):
            is_labelled = targets[name].notna().to_numpy()
            column = targets[name].dropna().convert_dtypes().to_numpy()
            check_classification_targets(column)
            classes, numbers = np.unique(column, return_inverse=True)
            if {*classes.tolist()} <= {0, 1}:
                numbers = classes.astype(int)[numbers]
                classes = np.array([0, 1]).astype(classes.dtype)
            if len(classes) > 1:
                labels[is_labelled, target] = numbers
            self._classes.append(classes)
            are_numbers = np.array_equal(classes, np.arange(len(classes)))
            words.append([] if are_numbers else [str(label) for label in classes])
        counts = [*map(len, self._classes)]
        kinds = [Kind.MULTICLASS if count > 2 else Kind.BINARY for count in counts]
        counts = [count * (count > 2) for count in counts]
        schema = TargetSchema.of(list(targets), kind=kinds, num_classes=counts)
        return labels, schema.with_classes(words)

    @property
    def classes_(self) -> NDArray | list[NDArray]:
        """Classes of y, or of each of its columns."""
        return self._classes if len(self._classes) > 1 else self._classes[0]

    def predict_proba(self, X: Any) -> NDArray | list[NDArray]:
        """Probabilities of `classes_` [n, classes], a list with a column's for a y of
        several; NaN where `predict_table` has a reason."""
        values, rows = self._values(X)
        result = [np.full((len(X), len(classes)), np.nan) for classes in self._classes]
        for target, part in zip(self.learned_, values, strict=True):
            result[target][rows] = (
                part if part.shape[1] > 1 else np.hstack([1 - part, part])
            )
        return result if len(result) > 1 else result[0]

    def _values(self, X: Any) -> tuple[list[NDArray], NDArray[np.int64]]:
        """Predictions of each learned column, and the numbers of their rows of X."""
        (values, *_), rows, _ = self._estimate(X)
        return [values[:, part] for part in self.predictor_.targets.outputs], rows

    def predict(self, X: Any) -> NDArray:
        """The most probable class [n], or [n, T] for such a y; of two classes the second
        where its probability is above the model's cut-off, 0.5 unless a folder of
        ``graphormer-train`` has another. NaN where `predict_table` has a reason."""
        values, rows = self._values(X)
        columns = [np.full(len(X), np.nan, object) for _ in self._classes]
        targets = self.predictor_.targets.targets
        for index, part, target in zip(self.learned_, values, targets, strict=True):
            columns[index][rows] = self._classes[index][target.likeliest(part)]
        for index, classes in enumerate(self._classes):
            unknown = pandas.isna(columns[index])
            dtype = classes.dtype
            if unknown.any():
                dtype = float if dtype.kind in "iu" else object
            columns[index] = columns[index].astype(dtype)
        return columns[0] if self.one_column_ else np.stack(columns, 1)


def _smiles(X: Any) -> list[str]:
    """SMILES of X; empty where missing."""
    if isinstance(X, str):
        raise ValueError(f"X is one SMILES, expected several: give [{X!r}]")
    table = pandas.DataFrame(X)
    if len(table.columns) != 1 and len(table):
        raise ValueError(f"X has {len(table.columns)} columns, expected one, of SMILES")
    cells = table.to_numpy(object).ravel()
    texts = np.where(pandas.isna(cells), "", cells).tolist()
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"row {row} of X is {text!r}, expected a SMILES")
    return texts


def _targets(y: Any) -> pandas.DataFrame:
    """y as a table, whose columns have their names, else y, or y0, y1, ..."""
    table = pandas.DataFrame(y)
    pattern = "y{}" if len(table.columns) > 1 else "y"
    names = [pattern.format(n) if isinstance(n, int) else str(n) for n in table]
    for name, (_, column) in zip(names, table.items(), strict=True):
        kind = infer_dtype(column)
        if kind in NO_LABELS:  # NumPy would make numbers of them
            raise ValueError(
                f"{name} has labels of type {kind}, expected numbers or classes"
            )
    return table.set_axis(names, axis=1)
