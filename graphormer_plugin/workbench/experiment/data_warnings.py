"""Probable mistakes in the data of an experiment, a line each."""

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase
from rdkit.Chem.MolStandardize.rdMolStandardize import TautomerEnumerator
from rdkit.Chem.rdMolDescriptors import CalcMolFormula
from rdkit.Chem.rdMolHash import HashFunction, MolHash
from scipy.stats import ks_2samp

from graphormer_plugin.data.errors import agreed, counted, listed
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser, molecule_key
from graphormer_plugin.data.splits import RATIOS, SPLITS, Ratios
from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.label_warnings import warnings_about
from graphormer_plugin.data.tables.table import SPLIT
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FIT_SPLITS,
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.settings import Settings
from graphormer_plugin.workbench.experiment.split_tables import INVALID_FILE
from graphormer_plugin.workbench.predictions.scores import is_defined

# Labels of test lie elsewhere if their distribution function and that of train and valid are
# farther apart than this, and chance explains it with less than this probability (our choice).
SHIFTED = 0.3
CHANCE = 1e-3
OTHER_SHARE = 0.15  # from that asked for (our choice)
MOST_TAUTOMERS = 100  # of a molecule
TAUTOMERS_A_ROW = 0.5  # that are made for a table, at most (our choice)
FEWEST_TAUTOMERS = 2000  # or so many, if they are more
# What test molecules are that a key tells from those of train and valid, and the next coarser
# key does not: keys of molecules, of constitutions, of tautomers and of parents.
TWINS = (
    (
        "differ",
        "from molecules of train or valid in stereo marks or isotopes alone, so that metrics "
        "look better than they are; --split scaffold keeps them together",
    ),
    (
        "have",
        "a tautomer in train or valid, so that metrics look better than they are; write "
        "each compound in one form",
    ),
    (
        "are",
        "a salt, an ion or a hydrate of a molecule in train or valid, so that "
        "metrics look better than they are; --split scaffold keeps them together",
    ),
)


def experiment_warnings(
    table: LabelledMolecules, splits: Sequence[SplitLabels], settings: Settings
) -> list[str]:
    """Probable mistakes in the data, one line each."""
    lines = table_warnings(table, splits, settings)
    tautomers = tautomer_keys(table, settings.featuriser.for_smiles())
    keys = [table.keys, table.constitutions, tautomers, table.parents]
    for number, split in enumerate(splits, 1):
        for text in split_warnings(table, split, [*map(np.array, keys)], settings):
            if number > 1 and text not in lines:
                text = f"{settings.run_name(number)}: {text}"
            if text not in lines:
                lines.append(text)
    return lines


def table_warnings(
    table: LabelledMolecules, splits: Sequence[SplitLabels], settings: Settings
) -> list[str]:
    """Warnings about molecules, labels, and how they are split."""
    options = settings.folds or settings.ratios or settings.test_file
    condition = " without --folds, --ratios and --test-file" * bool(options)
    lines = table.warned + [
        f"the column {name} is not used; --split column:{name}{condition} takes it"
        for name in unused_columns(table, settings)
        if name.lower() == SPLIT
    ]
    given_split = table.given_split or {}
    draws_valid = bool(given_split) and "valid" not in given_split
    if draws_valid:
        of_column = table.split.startswith("column:")
        method = "at random by --seed" if of_column else f"by --split {table.split}"
        count = len(splits[0].rows["valid"])
        many = f"{counted(count, 'molecule')} of train {agreed(count, 'are')} valid"
        lines.append(f"{many}, drawn {method}")
    is_one = table.times is not None or given_split and not draws_valid
    if is_one and settings.replicates > 1:
        source = "the files" if settings.valid_file else table.split
        lines.append(
            f"all replicates have the split of {source}: they differ in their seeds"
        )
    if unlabelled := int(np.isnan(table.labels).all(1).sum()):
        lines.append(
            f"{counted(unlabelled, 'molecule')} without a label "
            f"{agreed(unlabelled, 'take')} no part; "
            "graphormer-predict with the folder predicts them"
        )
    salts = [text for text in table.smiles if "." in text.split()[0]]
    if salts and not settings.largest_fragment:
        lines.append(
            f"{counted(len(salts), 'molecule')} of several fragments, such as "
            f"{shown(salts[0])}; --largest-fragment leaves out salts and solvents"
        )
    if table.failures:
        lines.append(
            f"left out {counted(len(table.failures), 'row')} that cannot be parsed, "
            f"listed in {INVALID_FILE}"
        )
    for target, column in zip(table.targets.targets, table.labels.T, strict=True):
        none = {*range(target.num_classes)} - {*column.tolist()}
        if none and not target.classes:
            lines.append(f"no molecule has class {listed(sorted(none))}")
    labelled = np.flatnonzero(~np.isnan(table.labels).all(1))
    if copies := len(labelled) - len(table.without_copies(labelled)):
        lines.append(
            f"{counted(copies, 'row')} of {len(labelled):,} "
            f"{'is a copy' if copies == 1 else 'are copies'}, with the molecule and labels "
            "of another row; heads and trees count a molecule once"
        )
    return lines


def split_warnings(
    table: LabelledMolecules,
    split: SplitLabels,
    keys: Sequence[NDArray],
    settings: Settings,
) -> list[str]:
    """Warnings about a split of molecules, whose keys [n] are in the order of `TWINS`."""
    is_given = bool(table.given_split or table.folds)
    lines = warnings_about(
        table.targets,
        table.labels,
        split.rows,
        table.keys,
        table.extra,
        FIT_SPLITS,
        drawn=not is_given and table.times is None,
        unread=unused_columns(table, settings),
    )
    for own, shared, words in zip(keys, keys[1:], TWINS):
        lines += twins(split, own, shared, *words)
    if not (is_given or settings.folds):
        lines += other_shares(split, settings.ratios or RATIOS)
    return lines + undefined_metrics(split) + label_shift(split)


def unused_columns(
    table: LabelledMolecules, settings: Settings
) -> dict[str, Sequence[str]]:
    """Cells of the columns that no option reads, by name."""
    used = (settings.weight_column, settings.groups, *settings.extra_columns)
    return {n: cells for n, cells in table.others.items() if n not in used}


def other_shares(split: SplitLabels, ratios: Ratios) -> list[str]:
    """A warning about groups that give the parts other shares of the molecules than
    ``ratios``."""
    counts = np.array([len(split.rows[part]) for part in SPLITS])
    shares = counts / counts.sum()
    if (np.abs(shares - ratios) < OTHER_SHARE).all():
        return []
    train, valid, test = (f"{share:.0%}" for share in shares)
    return [
        f"{train} of the molecules are train, {valid} valid, {test} test: few groups of "
        f"--split {split.table.split} have most of them; --split random has the shares asked for"
    ]


def twins(
    split: SplitLabels, keys: NDArray, shared_keys: NDArray, verb: str, text: str
) -> list[str]:
    """Warn of test molecules that are not a fitted molecule by ``keys``, but share a key in
    ``shared_keys`` with one; ``verb`` and ``text`` follow their number."""
    fitted = split.fitted
    test = split.rows["test"]
    other = ~np.isin(keys[test], keys[fitted])
    count = int((other & np.isin(shared_keys[test], shared_keys[fitted])).sum())
    if not count:
        return []
    rows = counted(len(test), "row")
    return [f"{count:,} of {rows} of test {agreed(count, verb)} {text}"]


def tautomer_keys(
    table: LabelledMolecules, featuriser: OGBFeaturiser
) -> NDArray[np.uint64]:
    """Keys of the molecules that their tautomers share, for molecules with the formula and
    the skeleton of another; their `constitutions` for all others.

    RDKit takes half a second for the canonical tautomer of a peptide, which has a thousand.
    So the first `MOST_TAUTOMERS` of a molecule count, and molecules get one until
    `TAUTOMERS_A_ROW` of the table have been made, or `FEWEST_TAUTOMERS`.
    """
    keys = np.array(table.constitutions, np.uint64)
    rows_of: dict[tuple[str, str], list[int]] = {}
    with rdBase.BlockLogs():
        for row, text in enumerate(table.smiles):
            mol = featuriser.mol(text)
            skeleton = MolHash(Chem.Mol(mol), HashFunction.ElementGraph)
            rows_of.setdefault((CalcMolFormula(mol), skeleton), []).append(row)
        shared = [rows for rows in rows_of.values() if len({*keys[rows].tolist()}) > 1]
        enumerator = TautomerEnumerator()
        enumerator.SetMaxTautomers(MOST_TAUTOMERS)
        left = max(FEWEST_TAUTOMERS, TAUTOMERS_A_ROW * len(table))
        for row in [row for rows in shared for row in rows]:
            if left <= 0:
                break
            with contextlib.suppress(ValueError):  # RDKit may refuse a rare valence
                mol = featuriser.mol(table.smiles[row])
                tautomers = enumerator.Enumerate(mol)
                left -= len(tautomers)
                mol = enumerator.PickCanonical(tautomers)
                keys[row] = molecule_key(Chem.MolToSmiles(mol, isomericSmiles=False))
    return keys


def undefined_metrics(split: SplitLabels) -> list[str]:
    """Warnings about targets without a main metric in a part of a split."""
    table = split.table
    names = np.array(table.targets.names)
    metrics = np.array([kind.main_metric for kind in table.targets.kinds])
    lines = []
    unknown = split.unlearned
    if unknown.any():
        counts = "" if table.weights is None else " has a weight above 0"
        lines.append(
            f"no label of {listed(names[unknown])} in train{counts}: nothing is learned "
            "about it, and metrics leave it out"
        )
    for part in ("valid", "test"):
        labels = split.scored(part)
        pairs = zip(metrics, labels.T, strict=True)
        defined = np.array([is_defined(metric, y[:, None]) for metric, y in pairs])
        for metric in dict.fromkeys(metrics.tolist()):
            of_metric = metrics == metric
            missing = names[~defined & ~unknown & of_metric]
            if not len(missing):
                continue
            what = "a class" if metric == "roc_auc" else "labels"
            verb = "lacks" if len(missing) == 1 else "lack"
            text = f"{listed(missing)} {verb} {what} in {part}, where {metric} has no value"
            if count := (defined & of_metric).sum():
                text += f": the mean is over {count:,} of {of_metric.sum():,} targets"
            lines.append(text)
    return lines


def label_shift(split: SplitLabels) -> list[str]:
    """A warning about targets whose labels in test lie elsewhere than in train and valid;
    Kolmogorov and Smirnov's test of two samples tells."""
    names = []
    for name, column in split.table.label_columns():
        pair = [
            column[rows][~np.isnan(column[rows])]
            for rows in (split.fitted, split.rows["test"])
        ]
        if all(map(len, pair)):
            shift = ks_2samp(*pair)
            if shift.statistic > SHIFTED and shift.pvalue < CHANCE:
                names.append(name)
    return [
        f"labels of {listed(names)} lie elsewhere in test than in train and valid: metrics "
        "of test are of molecules unlike those that were learned"
    ] * bool(names)
