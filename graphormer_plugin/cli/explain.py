"""``graphormer-explain``: draw what the prediction for a molecule depends on."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from graphormer_plugin import hub
from graphormer_plugin.cli import (
    CommandParser,
    add_reading_options,
    check_name,
    command,
    not_empty,
    say,
    warn,
)
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.formats import SmilesTable, is_table, open_table
from graphormer_plugin.explain.drawing import Section, draw, page
from graphormer_plugin.explain.explanation import Explainer, NoPredictionError
from graphormer_plugin.inference.model_folder import models_named
from graphormer_plugin.inference.molecules import Molecules, RowReader, read_rows

MAX_MOLECULES = 200


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = CommandParser(
        prog="graphormer-explain",
        description="Draw the contributions of atoms and fragments to a prediction, and "
        "the nearest training molecules with their labels.",
    )
    add = result.add_argument
    add(
        "checkpoint",
        metavar="CKPT",
        type=not_empty,
        help="checkpoint of this package, or a folder with models.json",
    )
    add(
        "molecules",
        metavar="SMILES",
        nargs="+",
        help="SMILES, or a .csv, .tsv, .sdf, .xlsx, .parquet, .smi or .txt file of them; "
        f"at most {MAX_MOLECULES} molecules",
    )
    add(
        "output",
        metavar="OUT",
        help=".svg or .png, for one molecule, or .html, a page for any number",
    )
    add("--target", help="target to explain (default: the first)")
    add(
        "--attention",
        action="store_true",
        help="also draw gradient x input, the attention that atoms receive, and the maps of "
        "each layer; for one network without head",
    )
    add(
        "--layer",
        type=int,
        help="with --attention: every head, or channel of chromatic attention, of this "
        "layer, counted from 1",
    )
    add(
        "--channels",
        metavar="N,N",
        help="with --layer: only these channels or heads, counted from 1",
    )
    add(
        "--atoms",
        metavar="N,N",
        help="with --attention: the molecule coloured by what these atoms attend to, for "
        "each channel or head of --layer, else for each layer; atoms are numbered from 1 "
        "in the order of the SMILES",
    )
    add_reading_options(result)
    return result


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = build_parser().parse_intermixed_args(argv)
    output = Path(arguments.output)
    check_name(output, (".svg", ".png", ".html"))
    kind = output.suffix.lower().removeprefix(".")
    models = models_named([arguments.checkpoint])
    predictor = hub.load(models, arguments.user_data_dir)
    if predictor.targets.level != "graph":
        raise ValueError(f"{arguments.checkpoint} predicts nodes, not molecules")
    reader = predictor.reader(arguments.max_atoms)
    written = written_molecules(arguments.molecules, arguments.smiles_column)
    molecules, refused = read_molecules(written, reader)
    count = len(molecules) + len(refused)
    if not count:
        raise ValueError(f"no molecule in {', '.join(arguments.molecules)}")
    if kind != "html" and count > 1:
        raise ValueError(f"{output} is for one molecule, not {count}; use .html")
    explain = Explainer(
        *(predictor, arguments.target, models.checkpoints),
        *(arguments.attention, arguments.layer),
        numbers(arguments.channels, "--channels"),
        numbers(arguments.atoms, "--atoms"),
    )
    sections = []
    for molecule, read in molecules:
        try:
            sections.append(replace(explain(read), title=molecule.title))
        except NoPredictionError as error:
            refused.append(Section(molecule.title, str(error), []))
    if not sections:
        raise ValueError(refused[0].text)
    if kind == "html":
        title = f"{explain.name}: {Path(arguments.checkpoint).resolve().name}"
        text = page(title, explain.introduction, [*sections, *refused])
        content = text.encode()
    else:
        (section,) = sections
        (_, panels), *rest = section.groups
        groups = [(section.title, []), (section.text, panels), *rest]
        content = draw(groups, kind)
    with atomic_write(output) as file:
        file.write(content)
    for section in sections:
        say(f"{section.title}\t{section.text}")
    for section in refused:
        warn(f"left out: {section.text}")
    say(str(output))
    return 0


class WrittenMolecule(NamedTuple):
    """A molecule as it was given: file and line for messages (empty for the command line),
    SMILES and name (may be empty)."""

    place: str
    smiles: str
    name: str = ""

    @property
    def title(self) -> str:
        """Name and SMILES."""
        return f"{self.name}: {self.smiles}" if self.name else self.smiles


def read_molecules(
    written: Iterable[WrittenMolecule], reader: RowReader
) -> tuple[list[tuple[WrittenMolecule, Molecules]], list[Section]]:
    """Read molecules, each by itself.

    Returns:
        The molecules, and a section without pictures, which says why, for each that the
        reader refuses.

    Raises:
        ValueError: there are too many.
    """
    molecules, refused = [], []
    for molecule in written:
        read, reasons = read_rows(reader, [molecule.smiles])
        if reasons:
            text = f"{molecule.place}SMILES {shown(molecule.smiles)}: {reasons[0]}"
            refused.append(Section(molecule.title, text, []))
        else:
            molecules.append((molecule, read))
        if len(molecules) + len(refused) > MAX_MOLECULES:
            file = molecule.place.rpartition(", line")[0] or molecule.smiles
            raise ValueError(
                f"{file}: more than {MAX_MOLECULES} molecules for one page"
            )
    return molecules, refused


def written_molecules(
    arguments: Sequence[str], column: str
) -> Iterator[WrittenMolecule]:
    """Yield the molecules of the command line and of its files, in their order.

    Raises:
        ValueError: a file cannot be read, or no file has a column that can be named.
    """
    takes_column = not column
    for argument in arguments:
        path = Path(argument)
        is_text = path.suffix.lower() == ".txt"
        if is_text or is_table(argument):
            table = SmilesTable(path) if is_text else open_table(path)
            is_list = isinstance(table, SmilesTable)
            columns = [table.find_smiles("" if is_list else column)]
            takes_column |= not is_list or column == columns[0]
            columns += table.find_name(columns[0])
            for _, line, cells in table.rows(columns):
                place = f"{path}, line {line}: "
                yield WrittenMolecule(place, *(cell.strip() for cell in cells))
        else:
            yield WrittenMolecule("", argument)
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


if __name__ == "__main__":
    sys.exit(main())
