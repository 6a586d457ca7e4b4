"""Morgan fingerprints and RDKit's descriptors, as arrays and as features of graphs."""

import contextlib
import re
from collections.abc import Callable, Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors, rdMolDescriptors
from rdkit.Chem.rdFingerprintGenerator import FingerprintGenerator64, GetMorganGenerator

from graphormer_plugin.data.graphs.smiles import mol_of_smiles, without_isotopes
from graphormer_plugin.data.targets import LARGEST, SMALLEST

MORGAN_BITS = 2048
MORGAN_RADIUS = 2
# Masses, charges, surfaces, counts and contributions of atoms. Beside these, a model's
# vectors and the fingerprint, RDKit's other descriptors add nothing to a head, and take
# five times as long (examples/small_data/descriptor_groups.py).
KEPT = re.compile(
    r".*MolWt|.*PartialCharge|LabuteASA|TPSA|FractionCSP3|.*Count|Num(?!.*Electrons).*|"
    r"MolLogP|MolMR"
)
DESCRIPTORS = {
    name: function for name, function in Descriptors.descList if KEPT.fullmatch(name)
}
# Surfaces by property, and molecular quantum numbers (Nguyen et al. 2009,
# doi:10.1002/cmdc.200900317), as many as RDKit computes at once.
FAMILIES = {
    "PEOE_VSA": (rdMolDescriptors.PEOE_VSA_, 14),
    "SMR_VSA": (rdMolDescriptors.SMR_VSA_, 10),
    "SlogP_VSA": (rdMolDescriptors.SlogP_VSA_, 12),
    "MQN": (rdMolDescriptors.MQNs_, 42),
}
COMPUTED = [
    *DESCRIPTORS,
    *(
        f"{name}{n}"
        for name, (_, count) in FAMILIES.items()
        for n in range(1, count + 1)
    ),
]
PREFIX = "rdkit:"  # begins names of descriptors in the output layer
FEATURES = [PREFIX + name for name in COMPUTED]


def extra_columns(names: Sequence[str]) -> list[str]:
    """Names of graph features that are columns of a table, not descriptors."""
    return [name for name in names if not name.startswith(PREFIX)]


def morgan_generator(
    bits: int = MORGAN_BITS, chirality: bool = True
) -> FingerprintGenerator64:
    """RDKit's generator of `morgan_counts`."""
    return GetMorganGenerator(
        radius=MORGAN_RADIUS, fpSize=bits, includeChirality=chirality
    )


def morgan_counts(
    smiles: Sequence[str],
    bits: int = MORGAN_BITS,
    parse: Callable[[str], Chem.Mol] = mol_of_smiles,
    chirality: bool = True,
) -> np.ndarray:
    """Folded Morgan fingerprints (ECFP4): how often each environment of up to `MORGAN_RADIUS`
    bonds occurs, uint32 [n, bits]. With ``chirality``, CIP codes tell environments apart;
    isotopes never do.
    """
    generator = morgan_generator(bits, chirality)
    counts = np.zeros((len(smiles), bits), np.uint32)
    for row, text in zip(counts, smiles, strict=True):
        row[:] = generator.GetCountFingerprintAsNumPy(without_isotopes(parse(text)))
    return counts


def rdkit_descriptors(
    smiles: Sequence[str], parse: Callable[[str], Chem.Mol] = mol_of_smiles
) -> np.ndarray:
    """RDKit's descriptors of the names `COMPUTED`, float64 [n, descriptors] within the range of
    float32. NaN where RDKit gives no finite number, as for partial charges of some metals:
    trees take NaN as it is, other models need a value in its place."""
    values = np.array([_described(parse(text)) for text in smiles])
    values = values.reshape(len(smiles), len(COMPUTED))
    values[~np.isfinite(values)] = np.nan
    values[np.abs(values) < SMALLEST] = 0
    return np.clip(values, -LARGEST, LARGEST)


def _described(mol: Chem.Mol) -> list[float]:
    """Descriptors of a molecule as RDKit computes them, equal to the last bit, for the masses
    of the elements."""
    mol = without_isotopes(mol)  # a copy: RDKit keeps what it finds out in it
    values = []
    for function in DESCRIPTORS.values():
        values.append(np.nan)
        # RDKit's CalcMolDescriptors catches every exception as well.
        with contextlib.suppress(Exception):
            values[-1] = function(mol)
    for function, _ in FAMILIES.values():
        values += function(mol)
    return values


def with_descriptors(
    names: Sequence[str], numbers: np.ndarray, descriptors: Callable[[], np.ndarray]
) -> np.ndarray:
    """Features of graphs, float64 [n, K], NaN where missing: ``numbers`` [n, columns],
    and of the `rdkit_descriptors` those whose names follow."""
    wanted = [name for name in names if name.startswith(PREFIX)]
    if not wanted:
        return numbers
    if lacking := {*wanted} - {*FEATURES}:
        name = min(lacking).removeprefix(PREFIX)
        raise ValueError(f"this version of RDKit has no descriptor {name}")
    columns = [FEATURES.index(name) for name in wanted]
    return np.concatenate([numbers, descriptors()[:, columns]], 1)
