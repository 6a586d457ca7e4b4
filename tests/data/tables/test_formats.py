"""Tables as TSV, SDF and Parquet give the dataset that a CSV gives."""

import csv
import re

import numpy as np
import pandas
import pytest
from rdkit import Chem
from rdkit.Chem import rdDepictor, rdDistGeom

from graphormer_plugin.data import DatasetError, DatasetOptions, get_store
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.tables.formats import (
    drawn_block,
    is_table,
    open_table,
    write_table,
)
from support.stores import csv_dataset
from support.tables import write_file

NAMES = "smiles name NR-A NR-B SR-C".split()
ROWS = [
    dict(zip(NAMES, ("C" * n + "O", f"n{n}", str(n), "", "1.5"))) for n in range(1, 11)
]
BROKEN = Chem.MolToMolBlock(Chem.MolFromSmiles("CO")).replace(" O ", " Xx")


def sdf_record(row, block=None):
    mol = Chem.MolFromSmiles(row["smiles"])
    rdDepictor.Compute2DCoords(mol)
    mol.SetProp("_Name", row["name"])
    items = [f">  <{name}>\n{row[name]}\n\n" for name in list(row)[2:] if row[name]]
    return (block or Chem.MolToMolBlock(mol)) + "".join(items) + "$$$$\n"


@pytest.fixture(params=["csv", "csv.gz", "tsv", "tsv.gz", "sdf", "sdf.gz", "parquet"])
def path(request, tmp_path):
    path = tmp_path / f"table.{request.param}"
    suffix = request.param.partition(".")[0]
    if suffix == "parquet":
        frame = pandas.DataFrame(ROWS)
        frame["NR-A"], frame["NR-B"] = frame["NR-A"].astype(int), np.nan
        frame.to_parquet(path)
        return path
    if suffix == "sdf":
        text = "".join(map(sdf_record, ROWS))
    else:
        mark = {"csv": ",", "tsv": "\t"}[suffix]
        lines = [list(ROWS[0]), *(list(row.values()) for row in ROWS)]
        text = "\n".join(map(mark.join, lines)) + "\n"
    return write_file(path, text)


def prepared(path, **changes):
    return get_store(DatasetOptions(str(path), **changes))


def test_every_format_gives_the_same_data(path):
    table = open_table(path)
    name = "title" if ".sdf" in path.name else "name"
    empty = [] if ".sdf" in path.name else ["NR-B"]  # no record has it
    assert table.header == ["smiles", name, "NR-A", *empty, "SR-C"]
    assert table.find_name("smiles") == [name]
    cells = [cells for *_, cells in table.rows(["smiles", name, "NR-A"])]
    assert cells == [[row["smiles"], row["name"], row["NR-A"]] for row in ROWS]
    store = prepared(path, target_columns="NR-A")
    assert store.target[:, 0].tolist() == list(range(1, 11))
    assert store.manifest["dataset"] == "table"


@pytest.mark.parametrize("ending", [".smi", ".SMI.gz"])
def test_a_file_of_smiles(tmp_path, ending):
    text = "Smiles Name\nCCF \xe9thyl fluoride\n\n  C\tmethane \r\nCCO\n"
    table = open_table(write_file(tmp_path / f"few{ending}", text.encode("latin-1")))
    assert table.header == ["smiles", "name"] and table.count() == 3
    assert list(table.rows(["name", "smiles"])) == [
        (0, 2, None, ["éthyl fluoride", "CCF"]),
        (1, 4, None, ["methane", "C"]),
        (2, 5, None, ["", "CCO"]),
    ]


@pytest.mark.parametrize(
    "text, rows",
    [
        (
            "C\n\nsmiles x\nsmiles;y z\n",  # only the first line is a heading
            [
                (0, 1, None, ["C", ""]),
                (1, 3, None, ["smiles", "x"]),
                (2, 4, None, ["smiles;y", "z"]),
            ],
        ),
        (
            "smiles\tname\n\tethyl  fluoride\n  C methane\n\t \n\tsmiles\n",
            [
                (0, 2, None, ["", "ethyl  fluoride"]),
                (1, 3, None, ["C", "methane"]),
                (2, 5, None, ["", "smiles"]),
            ],
        ),
    ],
)
def test_headings_and_names_without_a_smiles(tmp_path, text, rows):
    table = open_table(write_file(tmp_path / "few.smi", text))
    assert list(table.rows(["smiles", "name"])) == rows


@pytest.mark.parametrize("ending", [".sd", ".mol", ".MOL", ".smiles", ".ism"])
def test_other_endings(tmp_path, ending):
    path = tmp_path / f"few{ending}"
    text = sdf_record(ROWS[2])
    if ending.lower() == ".mol":
        text = text.partition("$$$$")[0]
    path.write_text("OCC ethanol\n" if ending in (".smiles", ".ism") else text)
    assert is_table(path)
    ((*_, smiles, _),) = open_table(path).rows([], "smiles")
    expected = "OCC" if ending in (".smiles", ".ism") else ROWS[2]["smiles"]
    assert smiles == expected


TITLED = ["", "smiles,y,z", "CCO,1.5,2", "C,2,3"]


@pytest.mark.parametrize(
    "above", [["Assays of May"], ["Assays of May,,"], ["A,May", "", ",,"]]
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_title_above_the_header(tmp_path, above, separator):
    text = "\n".join([*above, *TITLED]).replace(",", separator)
    table = open_table(write_file(tmp_path / "table.csv", text))
    assert table.header == ["smiles", "y", "z"]
    assert [cells for *_, cells in table.rows(["y"])] == [["1.5"], ["2"]]
    assert any("above the header skipped" in note for note in table.notes)
    cells = [line.split(",") for line in [*above, *TITLED]]
    sheet = pandas.DataFrame([[*row, None, None][:3] for row in cells])
    sheet.to_excel(tmp_path / "table.xlsx", index=False, header=False)
    table = open_table(tmp_path / "table.xlsx")
    assert table.header[:2] == ["smiles", "y"] and table.count() == 2


@pytest.mark.parametrize(
    "text, header",
    [
        (",smiles\n0,CCO\n", ["", "smiles"]),
        ("Structure,\nInChI=1S/CH4/h1H4,x\n", ["Structure", ""]),
        ("name,y\nsmiles,2\n", ["name", "y"]),
    ],
)
def test_the_first_line_is_the_header(tmp_path, text, header):
    table = open_table(write_file(tmp_path / "table.csv", text))
    assert table.header == header and not table.notes


@pytest.mark.parametrize(
    "text, header",
    [
        ("CCO ethanol\nC methane\n", ["smiles", "name"]),
        ("CCO\nC\n", ["smiles"]),
        ("SN\tsmiles\n1\tCCO\n", ["SN", "smiles"]),
        ("smiles,y\nC,1\n", ["smiles", "y"]),
    ],
)
def test_a_text_of_smiles_or_of_cells(tmp_path, text, header):
    table = open_table(write_file(tmp_path / "list.txt", text))
    assert table.header == header
    assert table.count() == text.count("\n") - (header[0] in text)


def test_an_sdf_in_the_old_encoding_of_windows(tmp_path):
    """The format states none; µ and ° are frequent in units."""
    record = sdf_record(ROWS[2]).replace("1.5", "5 µM – 20 °C") + sdf_record(ROWS[3])
    path, out = tmp_path / "table.sdf", tmp_path / "out.sdf"
    lines = [["smiles", "title", "NR-A", "SR-C", "y"]]
    lines += [["C", "a", "3", "", "1"], ["C", "b", "4", "", "2"]]
    for encoding in ("cp1252", "utf-8"):
        path.write_bytes(record.encode(encoding))
        table = open_table(path)
        cells = [cells for *_, cells in table.rows(["SR-C"])]
        assert cells == [["5 µM – 20 °C"], ["1.5"]]
        write_table(out, iter(lines), table, "smiles", {"y": str}, 0, 2)
        assert "5 µM – 20 °C" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "asked, expected",
    [
        ("NR-*", ["NR-A", "NR-B"]),
        ("all", ["NR-A", "NR-B", "SR-C"]),
        ("SR-C,NR-?", ["SR-C", "NR-A", "NR-B"]),
        ("NR-B,NR-*", ["NR-B", "NR-A"]),
    ],
)
def test_targets_by_pattern(tmp_path, asked, expected):
    path = tmp_path / "table.csv"
    lines = [",".join(ROWS[0]), *(",".join(row.values()) for row in ROWS[::-1])]
    path.write_text("\n".join(lines) + "\n")
    store = prepared(path, target_columns=asked)
    assert store.targets.names == expected


@pytest.mark.parametrize(
    "index", ["", "Unnamed: 0", "index", "__index_level_0__", "number", "count", "gap"]
)
def test_all_targets_but_the_numbers_of_rows(tmp_path, index, caplog):
    path = tmp_path / "table.csv"
    first = {"count": 1, "number": 0, "gap": 1}.get(index, 7)
    rows = [f"{first + n},{'C' * n}O,{n % 3},{9 - n}\n" for n in range(9)]
    if index == "gap":
        rows[4] = f",{rows[4].partition(',')[2]}"
    path.write_text(f"{index},smiles,a,b\n" + "".join(rows))
    store = prepared(path, target_columns="all")
    assert store.targets.names == ["a", "b"]
    (text,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert f"all leaves out {index!r}, which only numbers the rows" in text


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 2)])
def test_all_leaves_out_a_column_with_a_word(tmp_path, shard, caplog):
    path = tmp_path / "table.csv"
    rows = [f"{'C' * n}O,{'>9' if n == 5 else n % 3},{9 - n},b{n}\n" for n in range(9)]
    path.write_text("smiles,a,b,c\n" + "".join(rows))
    store = prepared(path, target_columns="all", shard=shard)
    assert store.targets.names == ["b"]
    (text,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "all leaves out 'a', where '>9' is not a number; name it" in text


@pytest.mark.parametrize(
    "ending, write",
    [("csv.gz", "to_csv"), ("parquet", "to_parquet"), ("xlsx", "to_excel")],
)
def test_a_damaged_file_is_one_line(tmp_path, ending, write):
    """Half of a file, as a broken copy leaves it, or other text in its place."""
    path = tmp_path / f"table.{ending}"
    frame = pandas.DataFrame({"smiles": ["C" * n for n in range(1, 60)], "y": 1.0})
    getattr(frame, write)(path)
    asked = DatasetOptions(str(path), target_columns="y")
    assert len(csv_dataset(asked).smiles) == 59
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"smiles,y\nC,1\n" * 9):
        path.write_bytes(damaged)
        with pytest.raises((ValueError, OSError), match=re.escape(str(path))) as caught:
            csv_dataset(asked)
        assert "\n" not in str(caught.value)


class TestSdf:
    @pytest.fixture
    def sdf(self, tmp_path):
        """Function: the table of these records."""
        return lambda text: open_table(write_file(tmp_path / "table.sdf", text))

    def test_unreadable_record(self, tmp_path):
        path = tmp_path / "table.sdf"
        records = [sdf_record(row) for row in ROWS]
        pentavalent = Chem.MolFromSmiles("CC(C)(C)(C)C", sanitize=False)
        reasons = {
            sdf_record(ROWS[3], BROKEN): "Element 'Xx' not found",
            "$$$$\n": "the record has no mol block",
            sdf_record(
                ROWS[3], Chem.MolToMolBlock(pentavalent)
            ): "valence for atom # 1 C, 5",
        }
        for record, reason in reasons.items():
            path.write_text("".join([*records[:3], record, *records[4:]]))
            with pytest.raises(DatasetError, match="row 3; reasons in") as error:
                prepared(path, target_columns="NR-A")
            (file,) = re.findall("reasons in (.*?)\\)", str(error.value))
            ((_, smiles, text),) = [*csv.reader(open(file))][1:]
            assert reason in text and (smiles == "CC(C)(C)(C)C") == (
                "valence" in reason
            )
            store = prepared(path, target_columns="NR-A", skip_invalid=True)
            assert len(store) == 9 and 4 not in store.target

    def test_stereo_and_charges(self, sdf):
        smiles = ["C[C@H](N)C(=O)[O-].[Na+]", r"C/C=C\C(F)Cl", "c1ccccc1[N+](=O)[O-]"]
        table = sdf("".join(sdf_record({"smiles": s, "name": "x"}) for s in smiles))
        found = [cells[0] for *_, cells in table.rows(["smiles"])]
        assert found == [Chem.CanonSmiles(text) for text in smiles]

    def test_items_called_as_a_made_column(self, sdf):
        block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
        items = [("Title", "a"), ("SMILES", "OCC"), ("SMILES_2", "b"), ("dose <mg>", 5)]
        text = "".join(f">  <{name}>\n{value}\n\n" for name, value in items)
        table = sdf(f"{block}{text}$$$$\n")
        assert table.header == ["smiles", "Title", "SMILES_3", "SMILES_2", "dose <mg>"]
        cells = [row for *_, row in table.rows(table.header)]
        assert cells == [["CCO", "a", "OCC", "b", "5"]]
        table = sdf(f"mine{block}{text}$$$$\n")
        assert table.header[:4] == ["smiles", "title", "Title_2", "SMILES_3"]
        assert next(table.rows(["title", "Title_2"])).cells == ["mine", "a"]

    def test_items_by_the_number_of_a_field(self, sdf):
        block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
        table = sdf(f"{block}>  DT12 FROM STOCK\n7\n\n> 25 <logp>\n1\n\n$$$$\n")
        assert table.header == ["smiles", "DT12", "logp"]
        assert next(table.rows(table.header)).cells == ["CCO", "7", "1"]

    def test_two_items_of_one_name(self, sdf):
        record = sdf_record(ROWS[0])
        item = ">  <logp>\n{}\n\n"
        same, other = (f"{item.format('1.0')}{item.format(v)}" for v in ("1.0", "99"))
        both = [record.replace("$$$$", f"{text}$$$$") for text in (same, other)]
        table = sdf(record + both[0] + both[1])
        found = [cells[0] for *_, cells in table.rows(["logp"])]
        assert found == ["", "1.0", "1.0 99"]  # which is no number

    def test_cut_off(self, sdf):
        with pytest.raises(DatasetError, match=r"does not end \(\$\$\$\$ is missing\)"):
            sdf("".join(map(sdf_record, ROWS))[:-20])


class TestWriting:
    """Predicted rows in a format."""

    @pytest.fixture
    def written(self, path, tmp_path):
        table = open_table(path)
        lines = [[*table.header, "y", "y_class", "reason"]]
        for row, *_, cells in table.rows(table.header):
            new = ["", "", "bad"] if row == 2 else [row + 0.5, "active", ""]
            lines.append([*cells, *new])

        def write(suffix):
            output = tmp_path / f"out{suffix}"
            write_table(output, iter(lines), table, "smiles", {"y": str}, 0, len(ROWS))
            return output

        return write

    @pytest.mark.parametrize("suffix", [".tsv", ".sdf", ".parquet"])
    def test_reads_as_what_was_written(self, written, suffix, path):
        table = open_table(written(suffix))
        columns = ["smiles", "y", "y_class", "reason"]
        cells = [cells for *_, cells in table.rows(columns)]
        assert not table.notes  # such as another separator
        assert [row[0] for row in cells] == [row["smiles"] for row in ROWS]
        assert cells[1][1:] == ["1.5", "active", ""] and cells[2][1:] == ["", "", "bad"]
        column = "title" if suffix == ".sdf" or ".sdf" in path.name else "name"
        assert [c for *_, (c,) in table.rows([column])] == [r["name"] for r in ROWS]

    @pytest.mark.parametrize("path", ["sdf"], indirect=True)
    def test_sdf_keeps_its_records(self, written, path):
        before = path.read_text().split("$$$$\n")
        after = written(".sdf").read_text().split("$$$$\n")
        both = zip(before, after, strict=True)
        assert all(new.startswith(old.rstrip("\n")) for old, new in both)

    @pytest.mark.parametrize(
        "atoms, placed", [(300, True), (301, False), (5000, False)]
    )
    def test_large_molecules_have_no_places(self, atoms, placed):
        mol = Chem.MolFromMolBlock(drawn_block("C" * atoms, ""))
        assert mol.GetNumAtoms() == atoms
        assert mol.GetConformer().GetPositions().any() == placed

    @pytest.mark.parametrize(
        "text", ["CCO", "InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3", "CCO |bad|", "CC(C"]
    )
    def test_what_is_drawn(self, text):
        mol = Chem.MolFromMolBlock(drawn_block(text, ""))
        assert Chem.MolToSmiles(mol) == ("" if text == "CC(C" else "CCO")

    def test_texts_that_end_a_record(self, tmp_path):
        path, output = tmp_path / "table.csv", tmp_path / "out.sdf"
        cells = [["a", "CCO", "$$$$ much"], ["$$$$", "CCC", "$$$$"], ["b", "C", "9"]]
        lines = [["name", "smiles", "price"], *cells]
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(lines)
        write_table(output, iter(lines), open_table(path), "smiles", {}, 0, 3)
        assert len(Chem.SDMolSupplier(str(output))) == 3
        table = open_table(output)
        read = [found for *_, found in table.rows(["title", "smiles", "price"])]
        assert read == cells

    def test_names_and_cells_of_several_lines(self, tmp_path):
        path, output = tmp_path / "table.sdf", tmp_path / "out.sdf"
        path.write_text("".join(map(sdf_record, ROWS[:2])))
        table = open_table(path)
        long = "x" * 200_000 + " y"
        written = long.replace(" ", "\r\n\r\n")
        rows = [[*cells, written] for *_, cells in table.rows(table.header)]
        lines = iter([[*table.header, "IC50\n(nM)"], *rows])
        write_table(output, lines, table, "smiles", {}, 0, 2)
        read = [mol.GetPropsAsDict() for mol in Chem.SDMolSupplier(str(output))]
        assert [values["IC50 (nM)"] for values in read] == [long, long]
        columns = open_table(output)
        assert [c for *_, (c,) in columns.rows(["IC50 (nM)"])] == [long, long]


def test_blocks_keep_their_hydrogens(tmp_path):
    mol = Chem.AddHs(Chem.MolFromSmiles("CCO"))
    rdDistGeom.EmbedMolecule(mol, randomSeed=1)
    records = [f"{Chem.MolToMolBlock(mol)}>  <y>\n{y}\n\n$$$$\n" for y in range(9)]
    path = write_file(tmp_path / "ethanol.sdf", "".join(records))
    store = prepared(path, positions="file", progress=False)
    assert store.sizes.tolist() == [9] * 9
