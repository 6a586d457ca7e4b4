"""Any CSV of SMILES: columns, splits, labels, and everything that can be wrong."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from graphormer_plugin.data import DatasetError, DatasetOptions, get_store
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.sources.locate import locate
from graphormer_plugin.data.store.custom_splits import with_splits
from graphormer_plugin.data.store.sharded_store import ShardedStore
from support.stores import csv_dataset
from support.tables import write_file

SMILES = ["CCO", "c1ccccc1O", "C", "C/C=C/C", "N[C@@H](C)C(=O)O", "[Na+].[Cl-]", "C#N"]


@pytest.fixture
def options(tmp_path):
    """Options of a CSV with the given text."""

    def make(text, name="data.csv", **changes):
        path = write_file(tmp_path / name, text)
        return DatasetOptions(name=str(path), **changes)

    return make


@pytest.fixture
def read(options):
    """The dataset of a CSV with the given text."""
    return lambda text, **changes: csv_dataset(options(text, **changes))


def table(rows=10, value=lambda i: i):
    lines = [f"{SMILES[i % len(SMILES)]},{value(i)}" for i in range(rows)]
    return "\n".join(["smiles,y", *lines]) + "\n"


class TestCsv:
    @pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "DATA.CSV.GZ"])
    def test_defaults(self, options, name):
        store = get_store(options(table(20), name))
        sizes = {name: len(rows) for name, rows in store.splits.items()}
        assert sizes == {"train": 16, "valid": 2, "test": 2}
        assert store.target[:, 0].tolist() == list(range(20))
        assert store.targets.names == ["y"] and store.targets.unit == ""
        train = store.target[store.splits["train"], 0]
        assert store.targets.mean == [pytest.approx(train.mean())]
        assert store.targets.std == [pytest.approx(train.std())]
        assert store.schema.num_bond_types == 60
        assert store.manifest["dataset"].lower() == "data"

    def test_columns_missing_labels_and_byte_order_mark(self, options):
        text = "\ufeffb,SMILES,a,id,c\r\n" + "".join(
            f"{i},{SMILES[i % 7]},{'' if i % 2 else i},{i},NA\r\n" for i in range(10)
        )
        store = get_store(options(text, target_columns="b, a", target_unit="eV"))
        assert store.targets.names == ["b", "a"] and store.targets.unit == "eV"
        assert store.target[3, 0] == 3 and np.isnan(store.target[3, 1])
        assert store.manifest["counts"]["missing_labels"] == 5

    def test_moments_are_those_of_exact_labels(self, options, tmp_path):
        """A store, other splits of it, and several stores together are tested."""
        text = table(40, value=lambda row: f">{90 + row}" if row % 3 == 0 else str(row))
        store = get_store(options(text, censored=True))
        file = tmp_path / "split.json"
        parts = {"train": list(range(30)), "valid": [30, 31], "test": [32]}
        other = with_splits(store, file, json.dumps(parts))
        both = ShardedStore([store])
        for of, found in ((store, store), (other, other), (store, both)):
            train = of.splits["train"]
            exact = train[of.columns["bound"][train, 0] == 0]
            assert 0 < len(exact) < len(train)
            assert found.targets.mean == [pytest.approx(of.target[exact].mean())]
            assert found.targets.std == [pytest.approx(of.target[exact].std())]

    def test_bounds(self, options, read):
        cells = ["1.5", ">10", "ND", " >= -2", "2.5", "<.1", "≤ 3", "12", "-1.5--0.5"]
        cells += ["1e3-2e3", "3.1 – 4.3", "4-4", "-3"]
        text = table(13, value=cells.__getitem__)
        given = {"censored": True, "missing_labels": "nd"}
        inf = np.inf
        signs = [0, inf, 0, inf, 0, -inf, -inf, 0, 0.5, 500, 0.6, 0, 0]
        limits = [1.5, 10, np.nan, -2, 2.5, 0.1, 3, 12, -1, 1500, 3.7, 4, -3]
        source = read(text, **given)
        assert source.bounds[:, 0] == pytest.approx(signs, rel=1e-9)
        assert np.array_equal(source.targets[:, 0], limits, equal_nan=True)
        store = get_store(options(text, **given))
        assert store.columns["bound"][:, 0] == pytest.approx(signs, rel=1e-6)
        assert "bound" not in get_store(options(table())).columns
        commas = text.replace(",", ";").replace(".", ",")
        for name in ("targets", "bounds"):
            found = (getattr(x, name) for x in (read(commas, **given), source))
            assert np.array_equal(*found, True)
        assert np.isnan(read(text, censored=True, missing_labels="nd,>*").targets[1])

    @pytest.mark.parametrize("separator", [",", ";"])
    def test_columns_of_two_ends(self, read, separator):
        """They are a column of intervals, whose units and missing cells are as of others."""
        ends = ["1,2", "1,1", ",3", "3,NA", "NA,", "1.5,2.5", ",7.5"]
        names = "smiles,IC50_low,IC50_high,IC50_units,z"
        rows = [
            f"{s},{both},{'uM' if at == 5 else 'nM'},x"
            for at, (s, both) in enumerate(zip(SMILES, ends))
        ]
        text = "\n".join([names, *rows]) + "\n"
        if separator == ";":
            text = text.replace(",", ";").replace(".", ",")
        given = {"censored": True, "target_unit": "nM"}
        given["missing_labels"] = "-999"  # of an end
        text = text.replace(",NA,", ",-999,", 1).replace(";NA;", ";-999;", 1)
        text = text.replace("_high", "_HIGH")
        source = read(text, target_columns="IC50", **given)
        labels = [1.5, 1, 3, 3, np.nan, 2000, 7.5]
        assert np.array_equal(source.targets[:, 0], labels, True)
        found = source.bounds[:, 0].tolist()
        assert found == [0.5, 0, -np.inf, np.inf, 0, 500, -np.inf]

    def test_columns_that_are_no_ends(self, read, caplog):
        """A target that is not called as they are, or a name that is taken, leaves them."""
        rows = [f"{s},{at},{at + 1},{at}.5" for at, s in enumerate(SMILES)]
        for names, targets in (("x_low,x_high,y", "y"), ("x_low,x_high,y", "x_*")):
            text = "\n".join([f"smiles,{names}", *rows]) + "\n"
            assert not read(text, target_columns=targets, censored=True).bounds.any()
        assert not caplog.messages
        text = text.replace(",y", ",x")
        assert not read(text, target_columns="x", censored=True).bounds.any()
        assert "'x_low' and 'x_high' are not read as ends of 'x'" in caplog.text
        assert read(text.replace("h,x", "h,y"), target_columns="all", censored=True)

    def test_a_column_of_relations(self, read, caplog):
        """The relations are spelled like ChEMBL's."""
        signs = ["'='", "'>'", "'>>'", "'<'", "'~'", "", "'>'"]
        rows = [f"{s},{at},{sign}\n" for at, (s, sign) in enumerate(zip(SMILES, signs))]
        text = "smiles,Standard Value,Standard Relation\n" + "".join(rows)
        text = text.replace("\nC#N,6", "\nC#N,")  # without a label
        target = {"target_columns": "Standard Value"}
        source = read(text, censored=True, **target)
        assert source.bounds[:, 0].tolist() == [0, np.inf, np.inf, -np.inf, 0, 0, 0]
        assert read(text, **target).bounds is None
        (line,) = caplog.messages
        assert "3 labels of 'Standard Value' have > or < in column 'Standard" in line
        # The sign of a logarithm may be the other one.
        other = text.replace("Standard Value", "pChEMBL")
        bounds = read(other, censored=True, target_columns="pChEMBL").bounds
        assert not bounds.any()

    def test_conformers_of_a_molecule(self, tmp_path):
        """They are in two splits, and their labels may differ, except for one geometry."""
        records = []
        for row in range(30):
            mol = Chem.AddHs(Chem.MolFromSmiles("C" * (row // 3 + 1)))
            rdDistGeom.EmbedMolecule(mol, randomSeed=1 + row % 3 % 2)
            records.append(Chem.MolToMolBlock(mol) + f">  <y>\n{row}\n\n$$$$\n")
        path = write_file(tmp_path / "a.sdf", "".join(records))
        given = {"positions": "file", "data_root": str(tmp_path), "progress": False}
        store = get_store(DatasetOptions(name=str(path), **given))
        contradicting, shared = store.manifest["warnings"]
        assert contradicting.startswith("10 molecules with several rows and")
        assert "(20 rows;" in contradicting and "drop the dupl" not in shared
        assert "rows of test are molecules that train" in shared

    @pytest.mark.parametrize(
        "target, sign", [("IC50", 1), ("pIC50", -1), ("MW", 0), ("IC50_nM", 1)]
    )
    @pytest.mark.parametrize("relation", ["relation", "IC50_qualifier"])
    @pytest.mark.parametrize("header", ["{},IC50", "IC50,{}", "units,IC50,{}"])
    def test_bounds_of_amounts(self, read, caplog, target, sign, relation, header):
        """A larger concentration is a smaller negative logarithm, also in other units."""
        amounts = [1, 1000, 30, 5, 0.2]
        exponents = {"nM": 9, "uM": 6}
        header = header.format(relation)
        rows = []
        for at, amount in enumerate(amounts):
            unit = "uM" if at == 3 and "units" in header else "nM"
            cells = dict(zip(("IC50", relation), (amount, ">" if at > 2 else "=")))
            cells["units"] = unit
            start = [str(cells[name]) for name in header.split(",")]
            rest = f"{exponents[unit] - np.log10(amount):.2f}", str(16 + at)
            rows.append(",".join([SMILES[at], *start, *rest]))
        text = "\n".join([f"smiles,{header},pIC50,MW", *rows]) + "\n"
        text = text.replace(",IC50,", f",{target},") if "_" in target else text
        bounds = read(text, censored=True, target_columns=target).bounds[:, 0]
        assert np.sign(bounds).tolist() == [0, 0, 0, sign, sign]
        turned = [f"{target!r} falls with" in line for line in caplog.messages]
        assert any(turned) == (sign < 0)
        caplog.clear()
        read(text, target_columns=target)
        advised = ["--censored reads bounds" in line for line in caplog.messages]
        assert any(advised) == (sign != 0)
        assert not any("--target-unit" in line for line in caplog.messages if sign < 1)

    def test_marks_between_columns(self, read, caplog):
        """Text beside them is not meant, and the only target is where nothing else is."""
        rows = [f"{s},{at},a,{'>' if at else '='}" for at, s in enumerate(SMILES)]
        text = "\n".join(["smiles,y,note,relation", *rows]) + "\n"
        read_bounds = read(text, censored=True, target_columns="y").bounds[:, 0]
        assert read_bounds.tolist() == [0] + [np.inf] * 6
        text = text.replace("y,note,relation", "y,relation,pKi").replace(",a,", ",>,")
        text = text.replace("=", "4").replace(",>\n", ",>4\n")
        read(text, target_columns="y")
        assert any("call it 'y relation' or 'pKi" in line for line in caplog.messages)

    def test_a_column_of_units(self, read, caplog):
        units = ["uM", "NM", "µM", "", "Micromolar", "mM", "uM"]
        rows = [f"{s},{at},{u},IC50\n" for at, (s, u) in enumerate(zip(SMILES, units))]
        text = "smiles,Standard Value,Standard Units,Standard Type\n" + "".join(rows)
        text = text.replace("C=C/C,3", "C=C/C,")  # without a label, and a unit
        target = {"target_columns": "Standard Value"}
        assert read(text, **target).targets[:3, 0].tolist() == [0, 1, 2]
        (line,) = caplog.messages
        counts = (
            "has 5 values: 'uM' (2), 'NM' (1), 'µM' (1), 'Micromolar' (1), 'mM' (1)"
        )
        assert counts in line and "; --target-unit uM converts the labels" in line
        caplog.clear()
        values = read(text, **target, target_unit="nM").targets[:, 0]
        expected = [0, 1, 2000, np.nan, 4000, 5e6, 6000]
        assert np.array_equal(values, expected, equal_nan=True)
        (line,) = caplog.messages
        assert "5 labels of 'Standard Value' are converted from uM, µM" in line
        assert read(text, **target, target_unit="eV").targets[2, 0] == 2

    @pytest.mark.parametrize(
        "name, cells, counts",
        [
            ("Assay Organism", ["rat", "man", "rat"], "'rat' (2), 'man' (1)"),
            ("assay_id", ["12", "13", "12"], "'12' (2), '13' (1)"),
            ("relation", ["=", "~", "="], "'=' (2), '~' (1)"),
            ("Standard Type", ["IC50", "IC50", "IC50"], ""),
            ("Assay description", ["of a", "of b", "of c"], ""),
            ("assay_b", ["0", "1", "1"], ""),
            ("assay_b", ["0.5", "1.5", "1.5"], ""),
            ("supplier", ["a", "b", "b"], ""),
        ],
    )
    def test_columns_that_say_how_labels_were_measured(
        self, read, caplog, name, cells, counts
    ):
        rows = [f"{s},{at},{c}\n" for at, (s, c) in enumerate(zip(SMILES, cells))]
        read(f"smiles,y,{name}\n" + "".join(rows), target_columns="y")
        text = f"column {name!r}, which the model does not read, has 2 values: {counts}"
        assert [text in line for line in caplog.messages] == [True] * bool(counts)

    def test_rows_without_a_molecule_need_no_label(self, read):
        """PubChem describes its columns above the molecules."""
        text = "tag,smiles,logp\nTYPE,,FLOAT\nUNIT,not a molecule,MICROMOLAR\n"
        text += "".join(f"{n},{'C' * n},{n}\n" for n in range(1, 9))
        source = read(text, target_columns="logp", skip_invalid=True)
        assert np.isnan(source.targets[:2]).all() and len(source.targets) == 10
        wrong = text.replace("CCC,3", "CCC,high")
        with pytest.raises(DatasetError, match="row 4 .*'high' is not a number"):
            read(wrong, target_columns="logp", skip_invalid=True)

    def test_an_empty_cell_of_the_split(self, read, caplog):
        text = "smiles,y,split\nC,1,train\nCC,2,\nCCC,3,valid\nCO,4, \n"
        splits = read(text).splits
        assert {n: r.tolist() for n, r in splits.items()} == dict(train=[0], valid=[2])
        (line,) = caplog.messages
        assert line.endswith("2 rows with an empty cell in 'split' are in no split")

    def test_a_label_that_means_missing(self, read, caplog):
        labels = [f"{row % 7}" for row in range(40)]
        labels[7] = "-999"
        read(table(40, labels.__getitem__))
        (line,) = caplog.messages
        assert "row 7 (line 9), column 'y': label -999 lies more than 10 robust" in line
        assert line.endswith("--missing-labels=-999")

    def test_options_that_are_given_are_recorded(self, options):
        given, plain = options(table(), missing_labels="nd"), options(table())
        assert locate(given)[1] != locate(plain)[1]
        assert locate(given)[2]["options"] == {"missing_labels": ["nd"]}
        assert locate(plain)[2]["options"] == {}

    @pytest.mark.parametrize(
        "words, missing",
        [
            ("?", [0]),
            ("[N]", [2]),  # and blanks
            ("12,.2", [6, 7]),
            # pandas writes a column of whole numbers with a gap as floats.
            ("-999", [4, 10, 11]),
            ("-99*", [4, 5, 10]),
        ],
    )
    def test_only_the_star_stands_for_other_text(self, read, words, missing):
        cells = ["?", "7", " [N] ", "N", "-999", "-9990", "12", ".2", "1.2", "5"]
        cells += ["-999.0", "-9.99e2", "-9.9"]
        rest = ["?", "[N]", "N", *words.split(",")]
        labels = read(table(13, value=cells.__getitem__), missing_labels=rest).targets
        others = {*range(13)} - {0, 2, 3, *missing}
        assert np.isnan(labels[missing, 0]).all()
        assert not np.isnan(labels[sorted(others), 0]).any()

    def test_words_of_missing_labels_that_fit_no_cell(self, read, caplog):
        text = "smiles,y,z\n" + "C,1,\nCO,-999.0,7\nCN,2,ND\n" * 4
        given = {"-998,nd,-999,n/a,7*": ["-998", "n/a"], "nd,-999": []}
        for words, unused in given.items():
            caplog.clear()
            read(text, missing_labels=words, target_columns="y,z")
            fits = "--missing-labels {!r} fits no cell of y, z"
            found = [text[text.index(": ") + 2 :] for text in caplog.messages]
            assert found == [fits.format(word) for word in unused]

    @pytest.mark.parametrize(
        "header, split",
        [("split", ""), ("split", "column:split"), ("Split", ""), ("SPLIT", "")],
    )
    def test_split_column(self, read, header, split):
        names = ["train"] * 4 + ["Val", "validation", "test", "train"]
        text = f"smiles,y,{header}\n"
        text += "".join(f"C,{i},{s}\n" for i, s in enumerate(names))
        splits = read(text, split=split).splits
        rows = [splits[name].tolist() for name in ("train", "valid", "test")]
        assert rows == [[0, 1, 2, 3, 7], [4, 5], [6]]

    def test_split_by_time(self, options):
        """Whatever the seed; the column is no target."""
        rows = [f"{'C' * k},{k},0{1 + k // 4}.02.2024\n" for k in range(1, 13)]
        text = "smiles,y,day\n" + "".join(rows[::-1])
        store, other = (
            get_store(options(text, split="time:day", seed=seed)) for seed in (1, 2)
        )
        assert other.fingerprint == store.fingerprint
        parts = {"train": [9, 10, 11], "valid": [5, 6, 7, 8], "test": [0, 1, 2, 3, 4]}
        assert {n: rows.tolist() for n, rows in store.splits.items()} == parts

    @pytest.mark.parametrize("date", ["2024-01-{}", "{}", "{}.01.2024"])
    def test_dates_of_rows_that_no_training_uses(self, options, date):
        """They may be anything, and the split is that without these rows."""
        rows = [f"{'C' * k},{k},{date.format(k)}\n" for k in range(10, 22)]
        more = ["CC,,soon\n", "CCC,,\n", "C(C,3,never\n", ",4,never\n"]
        given = {"split": "time:day", "skip_invalid": True}
        text = "smiles,y,day\n" + "".join(rows)
        stores = [get_store(options(text + "".join(x), **given)) for x in ([], more)]
        for name in ("train", "valid", "test"):
            assert np.array_equal(*(store.splits[name] for store in stores))

    def test_two_columns_called_split(self, read):
        text = "smiles,y,split,Split\nC,1,train,0\nCO,2,train,1\nCN,3,valid,2\n"
        source = read(text, target_columns="y", weight_column="Split")
        assert source.splits["train"].tolist() == [0, 1]
        text = "smiles,y,Split\nC,1.5,0\nCO,2,0\nC,1,3\n"
        assert read(text, target_columns="all", split="random").target_names == ["y"]

    def test_scaffold_split(self, options):
        rings = ["c1ccccc1C"] * 16 + ["C1CC1C", "C1CCC1C"] * 2
        text = "smiles,y\n" + "".join(f"{s},1\n" for s in rings)
        store = get_store(options(text, split="scaffold"))
        rows = [store.splits[name].tolist() for name in ("train", "valid", "test")]
        # The later one of equal groups is valid.
        assert rows == [list(range(16)), [17, 19], [16, 18]]

    def test_random_split_depends_on_the_seed_only(self, options):
        first = get_store(options(table(30), seed=1))
        again = get_store(options(table(30), "copy.csv", seed=1))
        other = get_store(options(table(30), seed=2))
        assert first.fingerprint == again.fingerprint != other.fingerprint

    @pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
    def test_the_seed_does_not_matter_with_a_split_column(self, options, name):
        found = options("smiles,y,split\nCC,1,train\nCO,2,valid\nCN,3,test\n")
        if name != "data.csv":
            table = Path(found.name).with_name(name)
            pandas.read_csv(found.name).to_parquet(table)
            found = dataclasses.replace(found, name=str(table))
        places = [locate(dataclasses.replace(found, seed=seed))[1:] for seed in (1, 2)]
        assert places[0] == places[1]
        random = dataclasses.replace(found, split="random", target_columns=("y",))
        assert locate(random)[1] != locate(dataclasses.replace(random, seed=2))[1]

    def test_all_is_the_same_in_every_shard(self, read):
        """A word in the other half, or numbers of rows, are no target in either."""
        text = "smiles,n,y,z\n" + "".join(f"C,{n},{n % 3},{n / 2}\n" for n in range(9))
        text += "C,9,1,word\n"
        for number in (1, 2):
            source = read(text, target_columns="all", shard=Shard(number, 2))
            assert source.target_names == ["y"] and len(source.smiles) == 5

    @pytest.mark.parametrize("cell", ['"a, ""b""\nc"', "x" * 200_000])
    def test_quoted_and_long_cells(self, read, cell):
        text = "smiles,y,note\n" + f"C,1,{cell}\n" * 5
        assert len(read(text, target_columns="y").smiles) == 5

    def test_unparsable_molecules(self, options, tmp_path):
        text = "smiles,y\n" + "".join(
            f"{'C1CC' if i in (3, 12) else 'CCO'},{i}\n" for i in range(20)
        )
        with pytest.raises(DatasetError, match=r"2 molecules .*rows 3, 12; reasons in"):
            get_store(options(text))
        (listed,) = (tmp_path / "stores").glob("*.invalid.csv")
        header, first, second = listed.read_text().splitlines()
        assert header == "row,smiles,reason"
        assert first.startswith("3,C1CC,") and "unclosed ring" in first

        store = get_store(options(text, skip_invalid=True))
        assert len(store) == 18 and store.manifest["counts"]["skipped"] == 2
        assert sum(map(len, store.splits.values())) == 18
        kept = [i for i in range(20) if i not in (3, 12)]
        assert store.target[:, 0].tolist() == kept
        assert store.rows(np.arange(18)).tolist() == kept
        # The store is there now, but leaving molecules out must still be asked for.
        with pytest.raises(DatasetError, match="2 molecules .*listed in .*invalid.csv"):
            get_store(options(text))

    def test_a_long_cell_is_shortened_in_messages(self, read):
        long = "z" * 10**6
        for text in (f"smiles,y\nC,{long}\n", f"smiles,x,{long}\nC,1,1\n"):
            with pytest.raises(DatasetError, match="zzz") as caught:
                read(text)
            assert len(str(caught.value)) < 500
