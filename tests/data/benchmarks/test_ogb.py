"""OGB's benchmarks from raw files, and everything that can be wrong with these."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from graphormer_plugin.data import DatasetError, DatasetSource, describe, get_store
from graphormer_plugin.data.benchmarks import ogb
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.graphs.smiles import (
    PLAIN,
    feature_dims,
)
from support.benchmark_files import (
    REFUSED,
    REFUSED_ROWS,
    SMILES,
    Code,
    pack,
    splits_of,
    write_csv,
    write_ogbg,
    write_pcqm,
)
from support.stores import graphs_of, store_of
from support.tables import rows

# ------------------------------------------------------------- PCQM4M and PCQM4Mv2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("source", ["", "ogb", "pyg"])
def test_pcqm(tmp_path, options, version, source, caplog):
    name = {1: "pcqm4m", 2: "pcqm4mv2"}[version]
    folder = write_pcqm(tmp_path, version=version)
    before = sorted(path.name for path in folder.rglob("*"))
    store = get_store(options(name, source=source))
    hidden = {1: ["test"], 2: ["test-dev", "test-challenge"]}[version]
    assert sorted(store.splits) == sorted(["train", "valid", *hidden])
    assert len(store) == len(SMILES)
    targets = store.targets
    assert (targets.names, targets.unit) == (["homolumogap"], "eV")
    for split in hidden:
        assert np.isnan(store.target[store.splits[split]]).all()
    train = store.splits["train"]
    expected = splits_of(48, ("train", "valid", *hidden))["train"]
    assert train.tolist() == expected.tolist()
    assert targets.mean == [pytest.approx((3 + 0.25 * (train % 7)).mean())]
    assert "48 graphs, the official release has 3," in caplog.text
    # the loader has left nothing behind
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert not list((tmp_path / "stores").glob(".loading-*"))
    caplog.clear()
    assert get_store(options(name)).fingerprint == store.fingerprint
    assert caplog.text == ""  # a store that is there says nothing again


def test_conformers_of_pcqm(tmp_path, options):
    write_pcqm(tmp_path)
    plain, placed = (
        get_store(options("pcqm4mv2", positions=positions, skip_invalid=True))
        for positions in ("none", "rdkit")
    )
    assert plain.featuriser == "ogb" and placed.featuriser == "ogb_rdkit"
    assert plain.fingerprint != placed.fingerprint and "pos" not in plain.columns
    for number in range(0, len(placed), 7):
        smiles = SMILES[placed.rows(np.array([number]))[0]]
        pos = featuriser_named("ogb_rdkit").read(smiles).pos
        found = placed.columns["pos"][
            slice(*placed.columns["node_offset"][number:][:2])
        ]
        np.testing.assert_allclose(found, pos - pos.mean(0), atol=1e-5)


@pytest.mark.long
def test_splits_of_the_released_code_of_csa():
    """150,000 of train choose the epoch; the next tenth is the subset."""
    train = np.arange(3_378_606) + 7
    order = np.random.default_rng(42).permutation(len(train)) + 7
    full, part = (ogb.held_out_splits(train, subset) for subset in (False, True))
    for splits, valid, rest in (
        (full, order[:150_000], order[150_000:]),
        (part, order[:50_000], order[150_000:472_860]),
    ):
        assert np.array_equal(splits["valid"], np.sort(valid))
        assert np.array_equal(splits["train"], np.sort(rest))
    assert len(full["train"]) == 3_228_606 and len(part["train"]) == 322_860


@pytest.mark.parametrize("name, size", [("graphgps", 34), ("subset", 3)])
def test_splits_of_pcqm4mv2_with_a_labelled_test(name, size, tmp_path, options):
    gaps = np.arange(len(SMILES)) / 8
    write_pcqm(tmp_path, gaps=gaps)
    whole, part = get_store(options("pcqm4mv2")), get_store(options(f"pcqm4mv2-{name}"))
    official = {name: rows.tolist() for name, rows in whole.splits.items()}
    graphs, every = list(graphs_of(part)), list(graphs_of(whole))
    found = {}
    for split, ids in part.splits.items():
        origin = np.searchsorted(gaps, part.target[ids, 0])
        assert [graphs[row] for row in ids] == [every[row] for row in origin]
        found[split] = origin.tolist()
    assert found["test"] == official["valid"] and len(official["train"]) == 35
    assert len(found["train"]) == size and len(found["valid"]) == 1
    assert not set(found["train"]) & set(found["valid"])
    assert set(found["train"] + found["valid"]) <= set(official["train"])


def test_splits_saved_under_numpy_1(tmp_path, options):
    folder = write_pcqm(tmp_path)
    path = folder / "split_dict.pt"
    shutil.unpack_archive(path, tmp_path / "parts", "zip")
    (pickled,) = (tmp_path / "parts").rglob("data.pkl")
    content = pickled.read_bytes()
    old = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    if old != content:
        pickled.write_bytes(old)
    pack(tmp_path / "parts", path)
    assert len(get_store(options("pcqm4mv2")).splits["valid"]) == 5


def test_a_split_file_with_code_is_refused(tmp_path, options, capsys):
    folder = write_pcqm(tmp_path)
    torch.save({"train": Code()}, folder / "split_dict.pt")
    with pytest.raises(DatasetError, match="cannot be read.*weights_only|Weights only"):
        get_store(options("pcqm4mv2"))
    assert "executed" not in capsys.readouterr().out


def test_graphs_stay_what_they_are_without_raw_files(tmp_path, options):
    """A store that was prepared elsewhere needs no raw files beside it."""
    folder = write_pcqm(tmp_path)
    first = get_store(options("pcqm4mv2"))
    shutil.rmtree(folder)
    assert get_store(options("pcqm4mv2")).fingerprint == first.fingerprint
    # and other raw files make it stale
    write_pcqm(tmp_path, SMILES[:40])
    assert len(get_store(options("pcqm4mv2"))) == 40


# ------------------------------------------------------ ogbg-molhiv and ogbg-molpcba


def test_molhiv(tmp_path, options):
    """The graphs are those of the SMILES, also of molecules that RDKit now refuses."""
    smiles = [*SMILES, REFUSED]
    labels = (np.arange(49) % 3 == 0).astype(float)[:, None]
    write_ogbg(tmp_path, "ogbg-molhiv", smiles, labels)
    store = get_store(options("ogbg-molhiv", source="pyg"))
    assert store.targets.names == ["HIV_active"]
    assert store.targets.kind == "binary" and store.featuriser == "ogb"
    assert store.target[:, 0].tolist() == labels[:, 0].tolist()
    assert store.splits["test"].tolist() == splits_of(49)["test"].tolist()
    dims = dict(zip(("node_dims", "bond_dims"), feature_dims()))
    one = DatasetSource(smiles=smiles, targets=labels, parser=PLAIN.read_any, **dims)
    again = store_of(one)
    assert list(graphs_of(again)) == list(graphs_of(store)) and len(store) == 49


def test_molpcba_has_missing_labels(tmp_path, options, rng):
    names = [f"PCBA-{number}" for number in range(128)]
    missing, labels = rng.random((48, 128)) < 0.3, rng.integers(0, 2, (48, 128))
    labels = np.where(missing, np.nan, labels)
    write_ogbg(tmp_path, "ogbg-molpcba", SMILES, labels, tasks=names)
    store = get_store(options("ogbg-molpcba", source="ogb"))
    assert store.targets.names == names and store.targets.num_outputs == 128
    np.testing.assert_array_equal(store.target, labels)
    assert f"{int(np.isnan(labels).sum()):,} labels missing" in describe(store)


def molhiv(shared_data):
    smiles = [row["smiles"] for row in rows(shared_data / "molhiv.csv.gz")]
    splits = [row["split"] for row in rows(shared_data / "molhiv_split.csv.gz")]
    return smiles, np.flatnonzero(np.array(splits) == "test")


def test_refused_molecules_are_parsed_without_sanitisation(shared_data):
    smiles, test = molhiv(shared_data)
    graphs = []
    for row in REFUSED_ROWS:
        with pytest.raises(ValueError):
            PLAIN.read_row(smiles[row])
        graphs.append(PLAIN.read_any(smiles[row]))
    assert sum(len(graph.x) for graph in graphs) == 208
    assert sum(graph.edge_index.shape[1] for graph in graphs) == 2 * 237
    assert len(np.intersect1d(REFUSED_ROWS, test)) == 2
    # what sanitisation accepts stays as it is
    for string in smiles[:100]:
        pair = PLAIN.read_any(string)[:3], PLAIN.read_row(string)[:3]  # without extras
        for one, other in zip(*pair):
            assert np.array_equal(one, other)
    with pytest.raises(ValueError):
        PLAIN.read_any("C1CC(")


# ---------------------------------------------------------- downloads and archives


def test_an_archive_placed_by_hand(tmp_path, options):
    folder = write_pcqm(tmp_path / "elsewhere")
    archive = pack(folder, tmp_path / "pcqm4m-v2.zip", "pcqm4m-v2")
    with pytest.raises(DatasetError, match="md5 is .* expected 65b742"):
        get_store(options("pcqm4mv2"))
    assert archive.exists() and not (tmp_path / "pcqm4m-v2").exists()
    labels = np.zeros((48, 1))
    labels[::5] = 1
    folder = write_ogbg(tmp_path / "elsewhere", "ogbg-molhiv", SMILES, labels)
    pack(folder, tmp_path / "hiv.zip", "pcba")
    with pytest.raises(DatasetError, match="has no hiv/raw/edge.csv.gz"):
        get_store(options("ogbg-molhiv"))
    assert not (tmp_path / "ogbg_molhiv").exists()
    pack(folder, tmp_path / "hiv.zip", "hiv")
    assert len(get_store(options("ogbg-molhiv"))) == 48
    assert (tmp_path / "ogbg_molhiv" / "raw" / "edge.csv.gz").exists()
    assert not list(tmp_path.glob(".fetch-*"))


def test_a_download_that_breaks_off(tmp_path, options, monkeypatch):
    """Or that is somebody's page which says sorry: the message names what the user can
    reach."""
    labels = np.arange(48)[:, None] % 2
    folder = write_ogbg(tmp_path / "server", "ogbg-molhiv", SMILES, labels)
    archive = pack(folder, tmp_path / "server" / "hiv.zip", "hiv")
    content, url = archive.read_bytes(), archive.as_uri()
    monkeypatch.setitem(vars(ogb.MOLHIV), "url", url)
    for sent in (content[:1000], b"<html>"):
        archive.write_bytes(sent)
        with pytest.raises(DatasetError) as error:
            get_store(options("ogbg-molhiv"))
        assert str(error.value).startswith(f"{url}: the archive is damaged, incomplete")
        assert f"put hiv.zip into {tmp_path} by hand" in str(error.value)
        assert not (tmp_path / "ogbg_molhiv").exists()
        assert not list(tmp_path.glob(".fetch-*"))
    archive.write_bytes(content)
    assert len(get_store(options("ogbg-molhiv"))) == 48


@pytest.mark.parametrize("name", ["pcqm4m", "pcqm4mv2", "ogbg-molhiv", "ogbg-molpcba"])
def test_neither_files_nor_network(tmp_path, options, name):
    with pytest.raises(DatasetError) as error:
        get_store(options(name))
    text = str(error.value)
    assert "cannot be downloaded." in text and "no network" in text
    assert f"into {tmp_path}/" in text and ".zip into" in text and "http" in text
    assert "raw/" in text and "split" in text
    left = [path for path in tmp_path.rglob("*") if not path.name.startswith(".")]
    assert left == [tmp_path / "stores"]


# -------------------------------------------------------------------- bad content


def cut(end):
    return lambda path: path.write_bytes(path.read_bytes()[:end])


def table(header, *lines):
    return lambda path: write_csv(path, header, lines)


def fractions(path):
    splits = torch.load(path, weights_only=False)
    torch.save({**splits, "valid": splits["valid"] + 0.5}, path)


def one_split(path):
    torch.save({"train": np.arange(3)}, path)


GAPS, SPLITS = "raw/data.csv.gz", "split_dict.pt"  # PCQM4Mv2
VALID = "split/scaffold/valid.csv.gz"  # ogbg-molhiv
LABELS, NODES = "raw/graph-label.csv.gz", "raw/node-feat.csv.gz"


@pytest.mark.parametrize(
    "file, damage, message",
    [
        (SPLITS, Path.unlink, "v2 has no split_dict.pt"),
        (SPLITS, fractions, "split valid has dtype float64"),
        (SPLITS, one_split, "KeyError: 'valid'"),
        (GAPS, cut(-20), "EOFError: Compressed file ended"),
        (GAPS, table(["smiles", "homolumogap"], ["C", "high"]), "to float: 'high'"),
        (GAPS, table(["idx", "mol"], [0, "C"]), "KeyError: 'smiles'"),
        (VALID, table(None, [1], [48]), "split valid names row 48, expected 0..47"),
        (LABELS, table(None, *[[0]] * 47), "cannot be read.* 47, 1., .* 48, 1."),
        (LABELS, table(None, *[["yes"]] * 48), "convert string to float: 'yes'"),
        (NODES, table(None, *[[0] * 9] * 100), "cannot be read.* .100, .* expected"),
    ],
)
def test_wrong_files(tmp_path, options, file, damage, message):
    """One line names the dataset and its folder; no store is left."""
    name = "pcqm4mv2" if file in (GAPS, SPLITS) else "ogbg-molhiv"
    if name == "pcqm4mv2":
        folder = write_pcqm(tmp_path)
    else:
        folder = write_ogbg(tmp_path, name, SMILES, np.zeros((48, 1)))
    damage(folder / file)
    with pytest.raises(DatasetError, match=message):
        get_store(options(name))
    assert not list((tmp_path / "stores").glob("[!.]*"))
