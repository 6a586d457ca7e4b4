"""Which atoms of a molecule are near in space and far apart along its bonds?

The pairs of PCQM-Contact (Long Range Graph Benchmark), in conformers that RDKit makes: more
than five bonds apart and less than 3.5 angstrom.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rdkit import Chem, rdBase

from graphormer_plugin.data.benchmarks.nci import NCI_REFUSED, nci_file
from graphormer_plugin.data.errors import DatasetError, counted
from graphormer_plugin.data.files import file_sha256, home_path
from graphormer_plugin.data.graphs.conformers import embedded_positions
from graphormer_plugin.data.graphs.featurisers import vocabulary_of
from graphormer_plugin.data.graphs.smiles import (
    PLAIN,
    captured_rdkit_log,
    graph_of_mol,
    mol_of_smiles,
)
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.options import DatasetOptions

BONDS = 5
ANGSTROM = 3.5
MOST_BONDS = 10**6  # RDKit has 10^8 between fragments

logger = logging.getLogger(__name__)


def contacts_of(mol: Any, pos: np.ndarray) -> np.ndarray:
    """Pairs int64 [2, P] of atoms in contact, in both directions, so that their order does not
    depend on numbers; none between fragments (our choices). Positions [n, 3] are in angstrom.
    """
    bonds = Chem.GetDistanceMatrix(mol)
    distance = np.linalg.norm(pos[:, None] - pos, axis=-1)
    near = (bonds > BONDS) & (bonds < MOST_BONDS) & (distance < ANGSTROM)
    return np.stack(np.nonzero(near))


def _table(options: DatasetOptions) -> Path | None:
    """The table that the options name; None for RDKit's molecules."""
    source, _, rest = options.source.partition(":")
    if source == "table" and not rest:
        raise DatasetError("--dataset-source table: expected table:FILE")
    if source != "table" and rest and not (rest.isdecimal() and int(rest)):
        raise DatasetError(
            f"--dataset-source {options.source}: expected rdkit, rdkit:N with a number N "
            "of molecules, or table:FILE"
        )
    return home_path(rest) if source == "table" else None


def _content(options: DatasetOptions) -> dict[str, Any]:
    path = _table(options)
    digest = file_sha256(nci_file()) if path is None else open_table(path).digest
    return {"file": digest, "rdkit": rdBase.rdkitVersion}


@register_dataset(
    "contacts",
    source="rdkit",
    sources=("table",),
    options=("source", "seed", "split", "smiles_column"),
    content=_content,
)
def contacts(options: DatasetOptions) -> DatasetSource:
    """Contacts in the molecules of RDKit's wheel, of which ``rdkit:N`` takes the first N, or
    of a table (``table:FILE``).

    Graphs have OGB's features and no positions. Molecules without a contact are left out (our
    choice), with a line in the log.
    """
    return DatasetSource(
        graphs=_graphs(options),
        target_names=["contact"],
        level="link",
        **vocabulary_of(PLAIN),
    )


def _smiles(options: DatasetOptions) -> Iterator[tuple[int, str]]:
    """Rows and SMILES that the options name."""
    path = _table(options)
    if path is None:
        most = int(options.source.partition(":")[2] or 10**9)
        lines = nci_file().read_text(encoding="utf-8").splitlines()[:most]
        for row, line in enumerate(lines):
            if row not in NCI_REFUSED:
                yield row, line.split()[0]
        return
    table = open_table(path)
    column = table.find_smiles(options.smiles_column)
    for row in table.rows([column]):
        yield row.number, *row.cells


def _graphs(options: DatasetOptions) -> Iterator[SimpleNamespace]:
    without = failed = 0
    for row, smiles in _smiles(options):
        try:
            with captured_rdkit_log():
                mol = mol_of_smiles(smiles)
                pairs = contacts_of(mol, embedded_positions(mol))
        except ValueError as error:
            if _table(options) is not None and not options.skip_invalid:
                raise DatasetError(
                    f"contacts: row {row}, {smiles}: {error}; correct it, or leave such "
                    "molecules out with --skip-invalid"
                ) from None
            failed += 1
            continue
        without += not pairs.size
        if pairs.size:
            graph = graph_of_mol(mol)
            yield SimpleNamespace(
                x=graph.x,
                edge_index=graph.edge_index,
                edge_attr=graph.edge_attr,
                edge_label_index=pairs,
                edge_label=np.ones(pairs.shape[1]),
            )
    logger.info(
        "contacts: left out %s without a contact and %s without a conformer",
        counted(without, "molecule"),
        counted(failed, "molecule"),
    )
