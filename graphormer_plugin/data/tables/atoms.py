"""Atoms with positions and without bonds: extended xyz, and databases of ASE."""

import importlib.util
import io
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any, NamedTuple, Self

import numpy as np

from graphormer_plugin.data.columns import FORCES
from graphormer_plugin.data.errors import DatasetError, counted, listed
from graphormer_plugin.data.graphs.conformers import (
    ATOMS,
    NUM_ELEMENTS,
    NUM_TAGS,
)
from graphormer_plugin.data.graphs.sources import Atoms
from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.table import Lines, TextTable, readable

# Forces in a name, such as F or ref_forces.
FORCE = re.compile(r"forces?|(?<![^\W_])f(?![^\W_])", re.IGNORECASE)
# The slope of an energy in a name, of which forces are the negative.
GRADIENT = re.compile(r"grad|d[eu][_/]?d[rx]", re.IGNORECASE)
ENERGY = re.compile(r"(?<!\S)(\w*energy\w*)\s*=", re.IGNORECASE)


class Frame(NamedTuple):
    """Atoms [n] of a file, with arrays of n rows and the numbers and words of the whole."""

    numbers: np.ndarray
    positions: np.ndarray
    arrays: dict[str, np.ndarray]
    values: dict[str, Any]
    cell: np.ndarray
    pbc: np.ndarray


class AtomsTable(TextTable):
    """Frames of an extended xyz file, or rows of a database of ASE: a column of `Atoms`, and
    one of each number or word of a frame, such as its energy. Lines are frames, from 1.

    A database may have them in the ``data`` of a row, as nablaDFT's.
    """

    sources = (Atoms,)
    sign = 1  # of the forces in their array
    comment = ""  # second line of the first frame
    no_rows = "there are no atoms"

    def _read_header(self) -> Sequence[str]:
        if importlib.util.find_spec("ase") is None:
            raise DatasetError(
                f"{self.path}: it is read by ase: pip install 'graphormer-plugin[ase]'"
            )
        read = self._rows_of_database if self.path.suffix == ".db" else self._frames
        self.frames: list[Frame] = []
        with readable(self.path):
            try:
                self.frames.extend(read())
            except Exception as error:  # ASE raises what Python raises
                count = counted(len(self.frames), "frame")
                text = " ".join(f"{type(error).__name__}: {error}".split())
                if isinstance(error, KeyError):  # of ASE's table of elements
                    text = f"an unknown element, {error}"
                raise self.error(f"{count} can be read, then {text}") from None
        if not self.frames:
            raise self.error(self.no_rows)
        periodic = sum(frame.pbc.any() for frame in self.frames)
        if periodic:
            cells = f"{counted(periodic, 'frame')} with periodic cells"
            self.notes[f"{cells}, whose images are not read"] = None
        names = dict.fromkeys(n for frame in self.frames for n in frame.values)
        return [ATOMS, *(name for name in names if name != ATOMS)]

    def find_smiles(self, asked: str) -> str:
        """See `Table.find_smiles`."""
        if asked not in ("", ATOMS):
            raise self.error(f"--smiles-column {asked}: it has atoms, not SMILES")
        return ATOMS

    def in_format(
        self,
        source: type,
        length_unit: str = "",
        forces: str | None = None,
        targets: Sequence[str] = (),
    ) -> Self:
        """See `Table.in_format`."""
        table = super().in_format(source, length_unit)
        if forces is not None:
            table.forces = self._find_forces(forces, targets)
            table.sign = 1 if forces in ("", table.forces) else -1
        for index, frame in enumerate(self.frames if table.forces else ()):
            if table.forces not in frame.arrays:
                raise self.error(f"frame {index} has no {table.forces}, others have")
        if table.length != 1:
            self.notes[f"lengths and forces per {length_unit} become angstrom"] = None
            convert = partial(_converted, factor=table.length, forces=table.forces)
            table.frames = [*map(convert, self.frames)]
        return table

    def _find_forces(self, asked: str, targets: Sequence[str]) -> str:
        """The array of forces that is asked for, else the one that goes with the energies
        among the targets, or with any; empty without."""
        names = {
            name: None
            for frame in self.frames
            for name, array in frame.arrays.items()
            if array.shape[1:] == (3,)
        }
        name = asked if asked in names else asked.removeprefix("-")
        if name and name not in names:
            raise self.error(f"no forces {name!r}, atoms have {', '.join(names)}")
        if GRADIENT.search(asked) and name == asked:
            raise self.error(
                f"--forces-column {asked}: forces are the negative of a gradient; "
                f"--forces-column=-{asked} reads them so, or call it forces"
            )
        if name:
            return name
        energies = [n for n in self.header if "energy" in n.lower()]
        asked_for = [n for n in energies if n in targets] or energies
        likely = [*filter(FORCE.search, names)]
        levels, others = ({*map(_level, some)} for some in (asked_for, energies))
        found = [n for n in likely if _level(n) in levels]
        found = found or [n for n in likely if _level(n) not in others]
        found = [n for n in found if not _level(n)] or found
        if len(found) > 1:
            raise self.error(
                f"which forces, {' or '.join(found)}? Name them with --forces-column"
            )
        for other in likely if not found else ():
            self.notes[
                f"{other} of another energy than {listed(asked_for)} are not read"
            ] = None
        for other in filter(GRADIENT.search, names if not likely else ()):
            self.notes[
                f"{other} is not read: --forces-column=-{other} reads its negative, the forces"
            ] = None
        return found[0] if found else ""

    @property
    def taken(self) -> list[str]:
        """See `Table.taken`."""
        return [*self.header, *(n for frame in self.frames[:1] for n in frame.arrays)]

    @property
    def usual_targets(self) -> list[str]:
        """See `Table.usual_targets`: energies."""
        likely = [name for name in self.header if "energy" in name.lower()]
        if self.forces and not likely:
            raise self.error(
                f"{self.forces} without energies, of which they are the slopes; name other "
                "targets with --target-columns"
            )
        if self.comment.strip() and len(self.header) == 1:
            raise self.error(
                f"comment lines such as {shown(self.comment.strip())} name no value; write "
                "energy=NUMBER into each"
            )
        for level in (_level(self.forces), ""):  # those of the forces' name first
            if len(same := [name for name in likely if _level(name) == level]) == 1:
                return same
        return likely

    def lines(self, columns: Sequence[str]) -> Lines:
        """See `Table.lines`."""
        for number, frame in enumerate(self.frames, 1):
            cells = dict(frame.values)
            if ATOMS in columns:
                cells[ATOMS] = Atoms.of(
                    frame.numbers,
                    frame.positions,
                    frame.arrays.get("tags"),
                    self.sign * frame.arrays[self.forces] if self.forces else None,
                )
            yield number, [cells.get(name, "") for name in columns]

    def _frames(self) -> Iterator[Frame]:
        """Yield the frames of a file, which ASE reads one by one: of a whole file it believes
        counts that the file does not have, and takes ``@`` in its name for an index."""
        from ase.io.extxyz import XYZError, per_config_properties, read_xyz

        for number, head, lines in self._blocks():
            if not head.strip().isdecimal():
                found = shown(head.strip())
                raise XYZError(
                    f"line {number} is {found}, expected the number of atoms"
                )
            if len(lines) <= int(head):
                raise XYZError(f"the file ends in a frame of {int(head):,} atoms")
            self.comment = self.comment or lines[0]
            energies = ENERGY.findall(lines[0])
            if len({*map(str.lower, energies)}) < len(energies):
                raise XYZError(f"an energy is there twice ({listed(energies)})")
            text = "".join([head, *lines])
            try:
                (atoms,) = read_xyz(io.StringIO(text, None), slice(None))
            except ValueError as error:  # such as of a wrong count
                where = f"in the frame of {int(head):,} atoms from line {number}"
                raise XYZError(f"{where}: {error}") from error
            results = {} if atoms.calc is None else atoms.calc.results
            known = atoms.arrays | atoms.info | results
            yield _frame(atoms, known, {*atoms.info, *per_config_properties})

    def _blocks(self) -> Iterator[tuple[int, str, list[str]]]:
        """Yield the number of the first line of each frame, this line, and the others, which
        may be too few. Blank lines may stand between frames."""
        with self.open_lines() as lines:
            numbered = enumerate(lines, 1)
            for number, head in numbered:
                if head.strip():
                    count = int(head) + 1 if head.strip().isdecimal() else 0
                    rest = itertools.islice(numbered, count)
                    yield number, head, [line for _, line in rest]

    def _rows_of_database(self) -> Iterator[Frame]:
        """Yield the rows of a database."""
        import ase.db
        from ase.io.extxyz import per_config_properties

        with ase.db.connect(self.path, use_lock_file=False) as database:
            for row in database.select():
                names = ("energy", "forces", "tags")
                known = {name: row[name] for name in names if row.get(name) is not None}
                known |= row.key_value_pairs | row.data
                yield _frame(row, known, per_config_properties)


def write_frames(
    out: IO[str],
    rows: Iterator[list[Any]],
    table: AtomsTable,
    numbers: Collection[str],
    first: int,
) -> None:
    """Write a header and rows, from a ``first`` frame on, as extended xyz: the frames of the
    table with all that is known of them, and new columns, of which ``forces`` are of atoms.
    """
    import ase
    import ase.io

    names = next(rows)[len(table.header) :]
    for cells, frame in zip(rows, table.frames[first:]):
        atoms = ase.Atoms(
            frame.numbers, frame.positions, cell=frame.cell, pbc=frame.pbc
        )
        atoms.info |= frame.values
        for name, array in frame.arrays.items():
            if name not in atoms.arrays:
                atoms.set_array(name, array)
        for name, cell in zip(names, cells[len(table.header) :]):
            if cell and name.startswith(FORCES):
                atoms.set_array(name, np.array(cell))
            elif cell:
                atoms.info[name] = float(cell) if name in numbers else str(cell)
        ase.io.write(out, atoms, format="extxyz", write_results=False)


def _converted(frame: Frame, factor: float, forces: str) -> Frame:
    """A frame in angstrom, with ``forces`` per angstrom."""
    slopes = {
        name: array / factor
        for name, array in frame.arrays.items()
        if FORCE.search(name) or GRADIENT.search(name) or name == forces
    }
    return frame._replace(
        positions=frame.positions * factor,
        cell=np.asarray(frame.cell) * factor,
        arrays=frame.arrays | slopes,
    )


def _level(name: str) -> str:
    """What the name of energies or forces says beside that, such as a level of theory."""
    return FORCE.sub("", name.lower().replace("energy", "")).strip("_-. ")


def _frame(atoms: Any, known: Mapping[str, Any], whole: Collection[str]) -> Frame:
    """A frame of ASE's atoms, or row of a database, and of what is known of it, arrays of its
    atoms and values of the ``whole``, such as the three numbers of the dipole of water.
    """
    numbers = atoms.numbers
    if not len(numbers):
        raise ValueError("a frame without atoms")
    odd = numbers[(numbers < 1) | (numbers >= NUM_ELEMENTS)]
    if odd.size:
        raise ValueError(f"an atom of no element (atomic number {odd[0]})")
    arrays: dict[str, np.ndarray] = {}
    values: dict[str, Any] = {}
    for name, value in known.items():
        array = np.asarray(value)
        # ASE reads a word of a comment, such as "water", as True.
        is_value = array.size == 1 and array.dtype != np.bool_
        if is_value and name not in ("numbers", "positions", "tags"):
            values[name] = array.item()
        elif name in whole and array.ndim:
            values[name] = array.tolist()
        if array.ndim and len(array) == len(numbers) and name not in whole:
            arrays[name] = array
    tags = arrays.get("tags")
    if tags is not None and not np.isin(tags, range(NUM_TAGS)).all():
        raise ValueError(f"tags {np.unique(tags).tolist()}, expected 0..{NUM_TAGS - 1}")
    return Frame(numbers, atoms.positions, arrays, values, atoms.cell, atoms.pbc)
