"""Stores from what registered functions return: graphs or SMILES, right or wrong."""

import importlib
import multiprocessing
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Batch, Data

from graphormer_plugin.data import (
    DatasetError,
    DatasetOptions,
    DatasetSource,
    get_store,
    register_dataset,
)
from graphormer_plugin.data.graphs import smiles
from graphormer_plugin.data.graphs.chunk import CHUNK_ROWS
from graphormer_plugin.data.store import GraphStore
from support.stores import manifest, store_of
from support.training import forked


def graph(**changes):
    values = dict(
        x=torch.tensor([[0], [1], [2]]),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        edge_attr=torch.tensor([[0, 1], [1, 0]]),
        y=torch.tensor([1.0]),
    )
    values = {**values, **changes}
    return Data(**{name: value for name, value in values.items() if value is not None})


def of(*graphs, **changes):
    return DatasetSource(graphs=[*graphs], **changes)


of_three = partial(of, *[graph()] * 3)
LONE = graph(edge_index=torch.zeros(2, 0, dtype=torch.long), edge_attr=None)
CONTENTS = {
    "graphs": dict(graphs=[graph()] * 4),
    "smiles": dict(smiles=["C"] * 4, targets=[1.0] * 4),
}


def unexpected(smiles):
    raise AssertionError("work")


class TestSources:
    def test_without_splits_random(self):
        store = store_of({"dataset": [graph()] * 10, "source": "pyg"})
        assert len(store.splits["train"]) == 8

    def test_seeds_of_a_function_stay_its_own(self):
        """A training that prepares its data starts as one that finds them."""
        before = torch.get_rng_state()
        register_dataset("seeded")(lambda: torch.manual_seed(0) and of_three())
        get_store(DatasetOptions("seeded", rebuild=True))
        assert torch.equal(torch.get_rng_state(), before)

    def test_kinds_of_each_target(self):
        source = DatasetSource(graphs=[graph()] * 4, kind=["binary"])
        assert store_of(source).targets.kinds == ["binary"]

    def test_options_that_the_result_overrules(self):
        splits = {"train": range(3), "valid": [3]}
        own = DatasetSource(graphs=[graph()] * 4, splits=splits, kind="regression")
        given = {"split": "random", "smiles_column": "s", "target_columns": "t"}
        for name, value in (given | {"target_kind": "binary"}).items():
            flag = "--" + name.replace("_", "-")
            with pytest.raises(DatasetError, match=f"does not read {flag}"):
                store_of(own, **{name: value})
        open_one = DatasetSource(graphs=[graph()] * 4)
        store = store_of(open_one, "open", split="random", target_unit="eV")
        assert store.targets.unit == "eV"

    def test_what_graphs_carry(self):
        more = dict(graph_features=["pH"], graph_values=[[7.0], [8], [np.nan], [6]])
        more["weights"] = [1, 2, 0, 0.5]
        for name, content in CONTENTS.items():
            store = store_of(DatasetSource(**content, **more), name)
            assert store.columns["weight"].tolist() == [1, 2, 0, 0.5]
            assert store.schema.graph_features == ["pH"]
            values = store.columns["graph_features"][:, 0]
            np.testing.assert_array_equal(values, [7, 8, np.nan, 6])

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (dict(weights=[1.0] * 3), r"weights have shape \[3\], expected \[4\]"),
            (dict(weights=[1, -2, 3, 4]), "weight 1 is -2.0, expected a finite number"),
            (dict(weights=[1, 2, np.nan, 4]), "weight 2 is nan, expected"),
            (dict(weights=[1e39] * 4), "weight 0 is inf, expected"),
            (dict(bounds=[[1], [-1], [0], [0]]), "bounds are int64 .* floats"),
            (dict(bounds=np.zeros((4, 2))), r"float64 \[4, 2\], expected .* \[4, 1\]"),
            (dict(bounds=[[-0.5]] * 4), "expected .* half widths of 0 or more"),
            (dict(graph_features=["a"], graph_values=[[1.0]] * 5), r"\[5, 1\], .*4"),
        ],
    )
    def test_wrong_things_to_carry(self, changes, message):
        for name, content in CONTENTS.items():
            with pytest.raises(DatasetError, match=f"{name}: .*{message}"):
                source = DatasetSource(**content, **changes, parser=unexpected)
                store_of(source, name)

    @pytest.mark.parametrize(
        "changes, message",
        [
            (dict(targets=[1.0] * 3), r"y have shape \[3, 1\], expected \[4 graphs, 1"),
            (dict(targets=[1, 2, np.inf, 4]), "label 2 of target 0 is inf, expected"),
            (dict(targets=[1, 2, 1e39, 4]), "that fits float32"),
            (dict(target_names=["a", "b"]), "labels of a, b have shape"),
            (dict(targets=[0, 1, 2, 1], kind="binary"), r"label 2 of y is 2, expected"),
            (dict(splits={"train": [0], "valid": [4]}), "valid names row 4, expec"),
        ],
    )
    def test_lengths_are_checked_before_the_work(self, changes, message):
        source = {**CONTENTS["smiles"], "parser": unexpected, **changes}
        with pytest.raises(DatasetError, match=message):
            store_of(DatasetSource(**source))

    def test_rows_of_a_table_that_was_filtered(self):
        table = pd.DataFrame({"smiles": ["?", "C", "CC", "CCC"], "y": [0.0, 1, 2, 3]})
        table = table[table.y > 0]
        table.loc[3, "y"] = np.nan
        source = DatasetSource(smiles=table.smiles, targets=table.y)
        store = store_of(source)
        assert store.sizes.tolist() == [1, 2, 3]
        np.testing.assert_array_equal(store.target[:, 0], [1, 2, np.nan])

    @pytest.mark.parametrize("attributes", [None, (0,), (0, 1), (0, 2)])
    @pytest.mark.parametrize("alone", [[0], [0, 1], [2], [0, 1, 2]])
    @pytest.mark.parametrize("bonds", [True, False])
    def test_graphs_without_edges_anywhere(self, attributes, alone, bonds):
        """They have no bonds that could disagree with those of others, also where a
        chunk has them alone."""
        lone = graph(
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            edge_attr=None if attributes is None else torch.zeros(attributes),
        )
        other = graph() if bonds else graph(edge_attr=None)
        kinds = [*[0] * (CHUNK_ROWS - 1), 1, 2]
        graphs = [lone if kind in alone else other for kind in kinds]
        store = store_of(DatasetSource(graphs=graphs))
        edges = [0 if kind in alone else 2 for kind in kinds]
        assert np.diff(store.columns["edge_offset"]).tolist() == edges
        assert len(store.schema.bond_dims) == (2 if bonds and len(alone) < 3 else 0)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (dict(x=None), "has no x"),
            (dict(edge_index=None), "has no edge_index"),
            (dict(y=None), "has no y"),
            (dict(x=torch.zeros(0, 1)), r"x has shape \[0, 1\]"),
            (dict(x=torch.tensor([[0], [1], [-2]])), "x has category -2"),
            (dict(x=torch.zeros(3, 1)), "x has 1 column of floats, but graph 0"),
            (dict(x=torch.zeros(3, 2).long()), "x has 2 columns, but graph 0 has 1"),
            (dict(edge_index=torch.tensor([[0, 1], [1, 3]])), r"node 3, expected 0..2"),
            (dict(edge_index=torch.tensor([[0, 1], [1, -1]])), "names node -1"),
            (dict(edge_index=torch.tensor([[0.0, 1], [1, 2]])), "2, E. integers"),
            (dict(edge_attr=torch.zeros(1, 2)), r"edge_attr has shape \[1, 2\]"),
            (dict(edge_attr=torch.full((2, 2), 0.5)), "attr has 2 columns of floats"),
            (dict(edge_attr=torch.zeros(2, 3).long()), "edge_attr has 3 columns, but"),
            (dict(edge_attr=None), "edge_attr has no values, but graph 0"),
            (dict(pos=torch.zeros(3, 3)), "pos has 3 columns, but graph 0 has no"),
            (dict(pos=torch.zeros(3, 2)), r"expected \[3, 3\]"),
            (dict(y=torch.tensor([1.0, 2.0])), "y has 2 columns, but graph 0 has 1"),
            (dict(y=torch.tensor([torch.inf])), "y has .* fit float32"),
            (dict(y="high"), "y has .* expected numbers"),
        ],
    )
    def test_errors_name_the_graph(self, changes, message):
        graphs = [graph(), graph(), graph(**changes), graph()]
        with pytest.raises(DatasetError, match=f"graph 2: .*{message}"):
            store_of(DatasetSource(graphs=graphs))

    def test_real_features_of_edges(self):
        """Floats, whole numbers among them; edges are sorted, and their features with
        them."""
        attr = torch.tensor([[-1.0, 2.0], [1.0, 3.0]], dtype=torch.bfloat16)
        ends = torch.tensor([[1, 0], [2, 1]])
        graphs = [graph(edge_index=ends, edge_attr=attr) for _ in range(4)]
        lone = graph(edge_index=torch.zeros(2, 0, dtype=torch.long), edge_attr=None)
        store = store_of(DatasetSource(graphs=[*graphs, lone]))
        assert store.schema.num_edge_features == 2 and store.schema.bond_dims == []
        assert store.columns["edge_attr"].tolist() == attr.flip(0).tolist() * 4
        assert store.columns["edge_bond"].tolist() == [1] * 8
        again = GraphStore.open(store.path, verify=True)
        assert again.schema == store.schema

    @pytest.mark.parametrize("dtype", [torch.float, torch.long])
    def test_a_source_says_what_edges_have(self, dtype):
        graphs = [graph(edge_attr=torch.tensor([[1], [3]], dtype=dtype))] * 4
        for kind in ("real", "category"):
            source = DatasetSource(graphs=graphs, edge_kind=kind)
            schema = store_of(source, kind).schema
            real = kind == "real"
            assert schema.bond_dims == ([] if real else [4])
            assert schema.num_edge_features == int(real)
        graphs[2] = graph(edge_attr=torch.full((2, 1), 0.5))
        source = DatasetSource(graphs=graphs, edge_kind="category")
        with pytest.raises(DatasetError, match="graph 2: edge_attr has fractions"):
            store_of(source)

    def test_labels_of_graphs_beside_a_large_offset(self):
        labels = 1e8 + torch.arange(9, dtype=torch.double)
        graphs = [graph(y=label[None]) for label in labels]
        store = store_of(DatasetSource(graphs=graphs))
        assert store.target[:, 0].tolist() == labels.tolist()

    def test_counts_are_not_categories(self, caplog):
        many = [graph(x=torch.tensor([[0], [5], [99_217]]))] * 4
        store = store_of(DatasetSource(graphs=many))
        assert store.schema.node_dims == [99_218]
        assert "x column 0 has categories up to 99,217" in caplog.text
        many[1] = graph(x=torch.tensor([[0], [5], [10**9]]))
        with pytest.raises(DatasetError, match="up to 1,000,000,000: number them from"):
            store_of(DatasetSource(graphs=many))

    def test_a_batch_is_its_graphs(self):
        batch = Batch.from_data_list([graph()] * 5)
        assert len(store_of(DatasetSource(graphs=batch))) == 5

    @pytest.mark.parametrize(
        "name, shape", [("x", (3, 1)), ("pos", (3, 3)), ("edge_attr", (2, 2))]
    )
    @pytest.mark.parametrize("value, said", [(torch.nan, "nan"), (1e39, "1e[+]39")])
    def test_features_fit_float32(self, name, shape, value, said):
        graphs = [graph(**{name: torch.zeros(shape)}) for _ in range(4)]
        graphs[2][name] = torch.full(shape, value, dtype=torch.double)
        message = f"graph 2: {name} has a value {said}, expected one that fits float32"
        with pytest.raises(DatasetError, match=message):
            store_of(DatasetSource(graphs=graphs))

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (None, "returned NoneType"),
            ({"train_idx": [0]}, "a dictionary with train_idx .* expected 'dataset'"),
            ({"dataset": [], "source": "networkx"}, "graphs of 'networkx', expected"),
            (DatasetSource(), "either graphs or smiles"),
            (DatasetSource(smiles=["C"]), "smiles with targets"),
            (of(), "no graphs"),
            (of(*[graph()] * 2), "2 rows cannot be split"),
            (of_three(splits={"train": [0]}), "no rows in split val"),
            (of_three(splits={"train": [3]}), "row 3, expected 0..2"),
            (of_three(splits={"train": [0.5]}), "expected row num"),
            (of_three(target_names="ab"), "labels of a, b have shape"),
            (of_three(exclude=[1]), "exclude is for SMILES"),
            (DatasetSource(graphs=graph()), "expected several graphs, got one"),
            (
                of(LONE, graph(), LONE, graph(edge_attr=torch.zeros(2, 1).long())),
                "graph 3: edge_attr has 1 column, but graph 1 has 2 columns",
            ),
            (of(graph(edge_attr=None, edge_weight=torch.ones(2))), "give it as edge_a"),
            (of(graph(edge_attr=None, edge_type=torch.ones(2))), "edge_type is not re"),
            (of(graph(x=(torch.zeros(3),) * 2)), "categories as columns of 0 and 1"),
            (of(graph(y=torch.tensor([0, -1, -7])), level="node"), "y has class -7"),
        ],
    )
    def test_bad_results(self, result, message):
        with pytest.raises(DatasetError, match=message):
            store_of(result)

    @pytest.mark.parametrize("split", ["column:f", "time:f"])
    def test_smiles_have_no_columns_to_be_split_by(self, split):
        with pytest.raises(DatasetError, match=f"only a CSV can be .* '{split}'"):
            store_of(DatasetSource(**CONTENTS["smiles"]), split=split)


def fails(*_):
    return {}["nothing"]


def graphs_that_fail():
    yield graph()
    fails()


def unlike(*_):
    return np.ones(3) + np.ones(4)


SMILES = dict(smiles=["C"] * 9, targets=[1.0] * 9)


class TestCodeOfUsersThatRunsLate:
    """Its errors are one line, as those of the registered function."""

    @pytest.mark.parametrize(
        "what, source, error",
        [
            ("the iterable of graphs", dict(graphs=graphs_that_fail()), "KeyError"),
            ("the function targets", SMILES | dict(targets=fails), "KeyError"),
            ("the function targets", SMILES | dict(targets=unlike), "ValueError: oper"),
            ("the parser", SMILES | dict(parser=fails), "KeyError: 'nothing'"),
        ],
    )
    def test_place(self, what, source, error):
        message = rf"^{what} failed at {__file__}:\d+: {error}"
        with pytest.raises(DatasetError, match=message):
            store_of(DatasetSource(**source))

    def test_errors_of_the_package_stay(self):
        """They say what to do."""

        def graphs():
            yield graph()
            smiles.mol_of_smiles("C1CC")

        with pytest.raises(DatasetError, match="^[^/]*: RDKit refuses it$"):
            store_of(DatasetSource(graphs=graphs()))

    @pytest.mark.long  # starts workers
    def test_place_in_a_worker(self, tmp_path, monkeypatch):
        """The worker imports the parser's module: not this one, which imports much."""
        path = tmp_path / "late_parser.py"
        path.write_text('def fails(*_):\n    return {}["nothing"]\n')
        monkeypatch.syspath_prepend(tmp_path)
        module = importlib.import_module("late_parser")
        source = DatasetSource(**SMILES, parser=module.fails)
        with pytest.raises(DatasetError, match=f"parser failed at {path}:2: "):
            store_of(source, workers=2)

    def test_a_parser_without_scaffolds(self):
        source = DatasetSource(**SMILES, parser=smiles.PLAIN.read_any)
        with pytest.raises(DatasetError, match="--split scaffold, but .* gives no ext"):
            store_of(source, split="scaffold")


def ask(options, queue):
    queue.put(get_store(options).fingerprint)


class TestStores:
    @pytest.mark.long  # starts two processes
    def test_two_processes_build_once(self, rings):
        options = rings(extra="import time; time.sleep(1)")
        queue = multiprocessing.get_context("fork").Queue()
        processes = [forked(ask, options, queue) for _ in range(3)]
        prints = {queue.get(timeout=60) for _ in processes}
        for process in processes:
            process.join()
        assert len(prints) == 1 and rings.builds() == 1

    def test_nothing_can_be_written(self, rings, tmp_path):
        (tmp_path / "stores").write_text("a file")
        message = f"^cannot keep prepared data in {tmp_path}/stores .*: name ano"
        with pytest.raises(DatasetError, match=message):
            get_store(rings())

    def test_a_relative_folder_that_is_read_only(self, rings, tmp_path, monkeypatch):
        def refuse(path, *_, **__):
            raise PermissionError(13, "Permission denied", os.path.abspath(path))

        monkeypatch.chdir(tmp_path)
        message = r"^cannot keep prepared data in r/stores \(Permission"
        with monkeypatch.context() as patch, pytest.raises(DatasetError, match=message):
            patch.setattr("graphormer_plugin.data.store.build.file_lock", refuse)
            get_store(replace(rings(), data_root="r"))

    def test_a_damaged_store_is_rebuilt(self, rings):
        store = get_store(rings())
        os.truncate(store.path / "x.npy", 99)
        assert get_store(rings()).fingerprint == store.fingerprint
        assert rings.builds() == 2

    def test_a_store_of_a_newer_version_stays(self, rings):
        store = get_store(rings())
        manifest(lambda content: content.update(version=99))(store.path)
        with pytest.raises(DatasetError, match="format 99 of a newer version"):
            get_store(rings())
        assert rings.builds() == 1
