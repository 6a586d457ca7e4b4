# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads RDKit's binary form of a molecule; ``molecule.py`` checks and documents."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

# Numbers of MolPickler in RDKit's sources.
cdef enum:
    VERSION = 16
    HEADER = 29  # bytes
    BEGIN_ATOMS = 0x01
    BEGIN_BONDS = 0x0B
    MAP_NUMBER = 0x18
    LABEL = 0x2C
    SYMMETRIC_RINGS = 0x42
    SP3 = 4
    SINGLE = 1

# Columns of atoms and bonds.
cdef enum:
    NUMBER, CHIRALITY, DEGREE, CHARGE, HYDROGENS, RADICALS, HYBRIDIZATION, AROMATIC
    IN_RING, ATOM_COLUMNS
cdef enum:
    TYPE, STEREO, CONJUGATED, BOND_COLUMNS


cdef struct Reader:
    const uint8_t *data
    Py_ssize_t left  # bytes
    bint wide  # atoms are counted in four bytes
    bint failed


def read_molecule(
    const uint8_t[::1] binary,
    const int64_t[:, ::1] atom_codes,
    const int64_t[:, ::1] bond_codes,
):
    """Return ``(x, edge_index, edge_attr)``, or None."""
    if binary.shape[0] < HEADER:
        return None
    cdef Reader reader = Reader(&binary[0], binary.shape[0], False, False)
    cdef int64_t endian, version, n, m
    endian = number(&reader, 4)
    skip(&reader, 4)
    version = number(&reader, 4)
    skip(&reader, 8)
    n = number(&reader, 4)
    m = number(&reader, 4)
    skip(&reader, 1)
    # An atom has 6 bytes, a bond 3.
    if endian != <int32_t> 0xDEADBEEF or version != VERSION:
        return None
    if n < 0 or m < 0 or 6 * n + 3 * m > reader.left:
        return None
    reader.wide = n > 255
    x = np.empty((n, ATOM_COLUMNS), np.int64)
    edge_index = np.empty((2, 2 * m), np.int64)
    edge_attr = np.empty((2 * m, BOND_COLUMNS), np.int64)
    cdef int64_t[:, ::1] atoms = x, ends = edge_index, bonds = edge_attr
    with nogil:
        read_atoms(&reader, atoms)
        read_bonds(&reader, atoms, ends, bonds)
        read_rings(&reader, atoms)
        if not reader.failed:  # else a part is not filled
            encode(&reader, atoms, atom_codes)
            encode(&reader, bonds, bond_codes)
    return None if reader.failed else (x, edge_index, edge_attr)


cdef void read_atoms(Reader *reader, int64_t[:, ::1] atoms) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t flags, parts, hydrogens
    expect(reader, BEGIN_ATOMS)
    for i in range(atoms.shape[0]):
        atoms[i, NUMBER] = byte(reader)
        flags = byte(reader)
        if flags & 0b10010010:  # coordinates, a query, or a residue
            reader.failed = True
        parts = number(reader, 4)
        atoms[i, CHARGE] = signed_byte(reader) if parts & 1 << 1 else 0
        atoms[i, CHIRALITY] = byte(reader) if parts & 1 << 2 else 0
        atoms[i, HYBRIDIZATION] = byte(reader) if parts & 1 << 3 else SP3
        hydrogens = byte(reader) if parts & 1 << 4 else 0
        if parts & 1 << 5:  # explicit valence
            byte(reader)
        if parts & 1 << 6:
            # Implicit valence. An atom in brackets has no implicit hydrogens.
            hydrogens += byte(reader) * (not flags & 1 << 5)
        atoms[i, HYDROGENS] = atoms[i, DEGREE] = hydrogens
        atoms[i, RADICALS] = byte(reader) if parts & 1 << 7 else 0
        if parts & 1 << 8:  # isotope
            skip(reader, 4)
        if parts >> 9 or parts & 1:
            reader.failed = True
        atoms[i, AROMATIC] = flags >> 6 & 1
        atoms[i, IN_RING] = 0
        if flags & 1 << 3:
            expect(reader, MAP_NUMBER)
            if byte(reader) > 127:
                skip(reader, 4)
        if flags & 1 << 2:
            expect(reader, LABEL)
            skip(reader, number(reader, 4))


cdef void read_bonds(
    Reader *reader, int64_t[:, ::1] atoms, int64_t[:, ::1] ends, int64_t[:, ::1] bonds
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int64_t flags, source, target
    expect(reader, BEGIN_BONDS)
    for j in range(0, bonds.shape[0], 2):
        source, target = atom_number(reader, atoms), atom_number(reader, atoms)
        flags = byte(reader)
        if flags & 0b10010001:  # a query, or several ends
            reader.failed = True
        if reader.failed:
            return
        ends[0, j] = ends[1, j + 1] = source
        ends[1, j] = ends[0, j + 1] = target
        atoms[source, DEGREE] += 1
        atoms[target, DEGREE] += 1
        bonds[j, TYPE] = byte(reader) if flags & 1 << 3 else SINGLE
        if flags & 1 << 2:  # direction
            byte(reader)
        bonds[j, STEREO] = 0
        if flags & 1 << 1:
            bonds[j, STEREO] = byte(reader)
            skip(reader, byte(reader) * (4 if reader.wide else 1))
        bonds[j, CONJUGATED] = flags >> 5 & 1
        bonds[j + 1] = bonds[j]


cdef void read_rings(Reader *reader, int64_t[:, ::1] atoms) noexcept nogil:
    cdef int64_t size
    expect(reader, SYMMETRIC_RINGS)
    for _ in range(number(reader, 4)):
        size = number(reader, 4 if reader.wide else 1)
        for _ in range(size):
            atoms[atom_number(reader, atoms), IN_RING] = 1
            if reader.failed:
                return
        if reader.failed:
            return


cdef void encode(
    Reader *reader, int64_t[:, ::1] values, const int64_t[:, ::1] codes
) noexcept nogil:
    """Replace values by their codes: a negative value counts from the end of a row of
    codes, and a value beyond the end has the last code."""
    cdef Py_ssize_t i, column
    cdef int64_t value, size = codes.shape[1]
    for i in range(values.shape[0]):
        for column in range(values.shape[1]):
            value = min(values[i, column], size - 1)
            value = codes[column, value if value >= 0 else value + size]
            if value < 0:
                reader.failed = True
            values[i, column] = value


cdef int64_t atom_number(Reader *reader, int64_t[:, ::1] atoms) noexcept nogil:
    """0 where there is no such atom."""
    cdef int64_t found = number(reader, 4 if reader.wide else 1)
    if found < 0 or found >= atoms.shape[0]:
        reader.failed = True
        return 0
    return found


cdef void expect(Reader *reader, int64_t tag) noexcept nogil:
    if byte(reader) != tag:
        reader.failed = True


cdef int64_t byte(Reader *reader) noexcept nogil:
    return number(reader, 1)


cdef int64_t signed_byte(Reader *reader) noexcept nogil:
    return <int8_t> number(reader, 1)


cdef int64_t number(Reader *reader, int size) noexcept nogil:
    """Read one byte without sign, or four with one."""
    cdef int32_t value = 0
    cdef const uint8_t *data = reader.data
    skip(reader, size)
    if reader.failed:
        return 0
    if size == 1:
        return data[0]
    memcpy(&value, data, 4)
    return value


cdef void skip(Reader *reader, int64_t size) noexcept nogil:
    if size < 0 or size > reader.left:
        reader.failed = True
        return
    reader.data += size
    reader.left -= size
