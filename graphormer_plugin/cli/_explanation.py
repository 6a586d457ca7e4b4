"""The run of ``graphormer-explain``: molecules of the command line and of files, drawn."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from graphormer_plugin import hub
from graphormer_plugin.cli import print_error, print_line, print_warning
from graphormer_plugin.data.files import (
    atomic_write,
    file_lock,
    home_path,
    text_sha256,
    write_csv,
    write_text,
)
from graphormer_plugin.data.graphs.seen import unseen_line
from graphormer_plugin.data.store.featurise import RowReader
from graphormer_plugin.data.tables.cells import point, shown
from graphormer_plugin.data.tables.formats import SmilesTable, is_table, open_table
from graphormer_plugin.data.tables.rows import whole_columns
from graphormer_plugin.inference.model_folder import models_named
from graphormer_plugin.inference.molecules import Molecules, read_rows
from graphormer_plugin.workbench.explain.drawing import Section, draw, page
from graphormer_plugin.workbench.explain.explanation import Explainer, NoPredictionError
from graphormer_plugin.workbench.explain.masking import ATOMS, BRICS_FRAGMENTS
from graphormer_plugin.workbench.predictions.prediction_chunks import PredictionChunks
from graphormer_plugin.workbench.predictions.run import model_identity


def explain_molecules(arguments: argparse.Namespace, most: int) -> None:
    """Draw and print explanations of the molecules, at most ``most`` unless as a table."""
    output = Path(arguments.output)
    kind = output.suffix.lower().removeprefix(".")
    models = models_named([arguments.checkpoint])
    predictor = hub.load(models, arguments.user_data_dir)
    explain = Explainer(
        predictor,
        arguments.target,
        models.checkpoints,
        arguments.attention,
        arguments.layer,
        numbers(arguments.channels, "--channels"),
        numbers(arguments.atoms, "--atoms"),
        arguments.sum,
        {"atoms": ATOMS, "fragments": BRICS_FRAGMENTS}.get(arguments.myerson),
    )
    to_table = kind == "csv"
    if to_table and explain.attention:
        raise ValueError(f"{output} has no attention maps; use .html")
    written = written_molecules(
        arguments.molecules, arguments.smiles_column, predictor.extra_columns
    )
    reader = predictor.reader(arguments.max_atoms)
    limit = sys.maxsize if to_table else most
    molecules, refused = read_molecules(written, reader, limit)
    count = len(molecules) + len(refused)
    if not count:
        raise ValueError(f"no molecule in {', '.join(arguments.molecules)}")
    if kind in ("svg", "png") and count > 1:
        raise ValueError(f"{output} is for one molecule, not {count}; use .html")
    if to_table:
        identity = model_identity(models, arguments.user_data_dir)
        given = [vars(arguments), identity, *(molecule for molecule, _ in molecules)]
        key = text_sha256(json.dumps(given))
        made = written_table(output, key, explain, molecules)
    else:
        made = [*explained(explain, molecules)]
    sections = [section for section in made if section.columns]
    refused += [section for section in made if not section.columns]
    if not sections:
        raise ValueError(refused[0].text)
    if kind == "html":
        title = f"{explain.name}: {Path(arguments.checkpoint).resolve().name}"
        write_text(output, page(title, explain.introduction, [*sections, *refused]))
    elif not to_table:
        (section,) = sections
        (_, panels), *rest = section.groups
        heading = f"{section.title}\n{section.text}"
        with atomic_write(output) as file:
            file.write(draw([(heading, panels), *rest], kind))
    for section in sections:
        print_line(f"{section.title}\t{section.text}")
    unseen = sum((predictor.unseen(read) for _, read in molecules), Counter[str]())
    warnings = [f"left out: {section.text}" for section in refused]
    for text in filter(None, [*warnings, unseen_line(unseen)]):
        print_warning(text)
    print_line(str(output))


class WrittenMolecule(NamedTuple):
    """A molecule as it was given: file and line for messages (empty for the command line),
    cells of extra columns with decimal points, SMILES and name (may be empty), and its number
    from 1 among all."""

    place: str
    extra: Mapping[str, str]
    smiles: str
    name: str = ""
    number: int = 0

    @property
    def title(self) -> str:
        """Name and SMILES."""
        return f"{self.name}: {self.smiles}" if self.name else self.smiles


ReadMolecule = tuple[WrittenMolecule, Molecules]


def explained(
    explain: Explainer, molecules: Sequence[ReadMolecule]
) -> Iterator[Section]:
    """Yield the explanation of each molecule, without columns where it has no prediction."""
    for molecule, read in tqdm(molecules, unit="mol", delay=2, disable=None):
        try:
            yield replace(explain(read, molecule.extra), title=molecule.title)
        except NoPredictionError as error:
            yield Section(molecule.title, str(error), [])


def written_table(
    output: Path, key: str, explain: Explainer, molecules: Sequence[ReadMolecule]
) -> list[Section]:
    """Write a table of the explanations, unless there is none; they outlive a kill. A second
    process with this output waits."""
    waiting = f"another process writes {output}; waiting"
    with file_lock(output, lambda: print_warning(waiting), keep=False):
        parts = PredictionChunks([output], key, Section)
        with parts.kept(print_warning, print_error, "molecule", 1, len(molecules)):
            for section in explained(explain, molecules[parts.count :]):
                parts.write(section)
            made = [*parts]
            if any(section.columns for section in made) and parts.finished() is None:
                rows = table_rows(molecules, made)
                parts.join(0, 0, lambda _: write_csv(output, rows), "")
    return made


def table_rows(
    molecules: Sequence[ReadMolecule], sections: Sequence[Section]
) -> Iterator[Sequence[int | str | float]]:
    """Yield the header and the rows of a table of atoms, empty where there is no value."""
    names = max((section.columns for section in sections), key=len)
    yield ["molecule", "name", "smiles", *names]
    for (molecule, _), section in zip(molecules, sections, strict=True):
        for cells in zip_longest(*section.columns.values(), fillvalue=""):
            values = ("" if cell != cell else cell for cell in cells)  # NaN
            yield [molecule.number, molecule.name, molecule.smiles, *values]


def read_molecules(
    written: Iterable[WrittenMolecule], reader: RowReader, most: int
) -> tuple[list[ReadMolecule], list[Section]]:
    """Read molecules, each by itself; of the others, the reasons."""
    molecules = []
    refused = []
    for number, molecule in enumerate(written, 1):
        read, reasons = read_rows(reader, [molecule.smiles])
        if reasons:
            text = f"{molecule.place}SMILES {shown(molecule.smiles)}: {reasons[0]}"
            refused.append(Section(molecule.title, text, []))
        else:
            molecules.append((molecule._replace(number=number), read))
        if number > most:
            file = molecule.place.rpartition(", line")[0] or molecule.smiles
            raise ValueError(f"{file}: more than {most} molecules for one page")
    return molecules, refused


def written_molecules(
    arguments: Sequence[str], column: str, extra_columns: Sequence[str]
) -> Iterator[WrittenMolecule]:
    """Yield the molecules of the command line and of its files, in their order."""
    takes_column = not column
    for argument in arguments:
        path = home_path(argument)
        is_text = path.suffix.lower() == ".txt"
        # An empty path is the current folder.
        if is_text or argument and is_table(path):
            table = SmilesTable(path) if is_text else open_table(path)
            table = table.in_format(str)
            is_list = isinstance(table, SmilesTable)
            columns = [table.find_smiles("" if is_list else column)]
            takes_column |= not is_list or column == columns[0]
            columns += table.find_name(columns[0])
            extra = [name for name in extra_columns if name in table.places]
            read = whole_columns(table, extra)
            for _, line, _, cells in table.rows([*extra, *columns]):
                numbers = {
                    name: point(cell) if read[name].has_commas else cell
                    for name, cell in zip(extra, cells)
                }
                place = f"{path}, line {line}: "
                texts = (cell.strip() for cell in cells[len(extra) :])
                yield WrittenMolecule(place, numbers, *texts)
        else:
            yield WrittenMolecule("", {}, argument)
    if not takes_column:
        raise ValueError(
            f"--smiles-column {column}: no column to choose in {', '.join(arguments)}"
        )


def numbers(text: str | None, flag: str) -> list[int]:
    """Numbers >= 1 of a comma-separated list; empty for None. The flag is for messages."""
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"{flag} {text}: expected numbers from 1, such as 1,5")
    return [int(part) for part in parts]
