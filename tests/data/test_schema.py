import json

import numpy as np
import pytest
import torch

import cython_ext
from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema, target_statistics


class TestFeatureSchema:
    def test_mixed_radix_is_one_to_one_over_the_full_ranges(self):
        schema = FeatureSchema(9, [4] * 9, [5, 6, 2])
        columns = np.stack(np.meshgrid(range(5), range(6), range(2), indexing="ij"))
        columns = columns.reshape(3, -1).T
        types = schema.bond_types(columns)
        assert types.tolist() == list(range(1, 61))
        assert schema.num_bond_types == 60
        assert np.array_equal(schema.bond_columns()[types], columns)
        assert schema.bond_columns()[0].tolist() == [-1, -1, -1]

    def test_table_numbers_combinations_and_knows_the_unknown(self):
        table = [[0, 3], [7, 0], [99, 99]]
        schema = FeatureSchema(1, [1], [100, 100], table)
        assert schema.num_bond_types == 4
        types = schema.bond_types(np.array([[7, 0], [0, 3], [5, 5], [99, 99]]))
        assert types.tolist() == [2, 1, 4, 3]
        assert schema.bond_columns().tolist() == [[-1, -1], *table, [-1, -1]]

    def test_no_edge_features_is_one_type(self):
        schema = FeatureSchema(1, [1])
        assert schema.num_bond_types == 1
        assert schema.bond_types(np.zeros((3, 0))).tolist() == [1, 1, 1]
        none = np.zeros((0, 3), int)  # no edges
        assert FeatureSchema(1, [1], [5, 6, 2]).bond_types(none).shape == (0,)

    @pytest.mark.parametrize(
        ("edge_attr", "message"),
        [
            ([[5, 0, 0]], "column 0 is 5, expected 0..4"),
            ([[0, -1, 0]], "column 1 is -1, expected 0..5"),
            ([[0, 0]], r"shape \[1, 2\], expected \[E, 3\]"),
        ],
    )
    def test_bad_values(self, edge_attr, message):
        with pytest.raises(ValueError, match=message):
            FeatureSchema(1, [1], [5, 6, 2]).bond_types(edge_attr)

    def test_json_round_trip(self):
        for schema in (
            FeatureSchema(2, [3, 4], [5, 6, 2]),
            FeatureSchema(2, None),
            FeatureSchema(1, [1], [100, 100], [[0, 3]]),
        ):
            text = json.dumps(schema.to_dict())
            assert FeatureSchema(**json.loads(text)) == schema

    def test_targets_of_several_kinds(self):
        """Classes have no scale; JSON keeps all."""
        kinds = ["multiclass", "regression", "binary"]
        counts = {"num_classes": [3, 0, 0], "class_names": [["a", "b", "c"], [], []]}
        schema = TargetSchema.of(["x", "y", "z"], ["", "eV", ""], kinds, **counts)
        schema = schema.scaled([1, 2, 3], [4, 5, 6])
        assert (schema.mean, schema.std) == ([0, 2, 0], [1, 5, 1])
        text = json.dumps(schema.to_dict())
        assert TargetSchema.of(**json.loads(text)) == schema


class TestTargetSchema:
    schema = TargetSchema.of(["a", "b"], "eV", mean=[1.0, -2.0], std=[2.0, 0.5])

    @pytest.mark.parametrize("kind", [np.array, torch.tensor])
    def test_standardise_and_restore(self, kind):
        values = kind([[3.0, -2.0], [float("nan"), 0.0]])
        standard = self.schema.standardise(values)
        assert type(standard) is type(values) and standard.dtype == values.dtype
        assert standard[0].tolist() == [1.0, 0.0]
        assert np.isnan(float(standard[1, 0])) and float(standard[1, 1]) == 4.0
        assert self.schema.restore(standard)[0].tolist() == [3.0, -2.0]

    @pytest.mark.parametrize(
        "unit, units", [("M", "log10(M), M"), ("", "no unit"), ("log10(M)", "log10(M)")]
    )
    def test_a_logarithm_has_a_unit_of_its_own(self, unit, units):
        assert TargetSchema.of(["log10 y", "z"], unit).meaning == units

    def test_classes_are_left_alone(self):
        values = np.array([[0.0, 1.0]])
        assert TargetSchema.of(["a", "b"], kind="binary").standardise(values) is values

    def test_unknown_words(self):
        with pytest.raises(ValueError, match="regression|binary|multiclass"):
            TargetSchema.of(["a"], kind="ranking")
        with pytest.raises(ValueError, match=r"level 'atom', expected graph\|node"):
            TargetSchema.of(["a"], level="atom")
        with pytest.raises(ValueError, match="2 names for 3 classes"):
            classes = TargetSchema.of(["a"], kind="multiclass", num_classes=3)
            classes.with_classes([["a", "b"]])
        with pytest.raises(ValueError, match="expected a list for each of .'a'"):
            self.schema.with_classes([["no", "yes"]])

    def test_statistics_over_present_labels_of_the_training_rows(self):
        nan = np.nan
        target = np.array(
            [[1, 5, nan, 0.1], [3, 5, nan, 0.1], [nan, 5, nan, 0.1], [99, 0, 1, 0]],
            dtype=np.float32,
        )
        mean, std = target_statistics(target, [0, 1, 2])
        assert mean[:3] == [2.0, 5.0, 0.0]
        assert std == [1.0, 1.0, 1.0, 1.0]  # constant and empty columns: 1


class TestBatchSpec:
    def test_fields_are_those_of_the_kernel(self):
        """All but registered fields, numbers of graphs and labelled pairs."""
        fields = {name for name, field in FIELDS.items() if not field.column}
        assert fields - {"graph_features", "edge_label_index"} == cython_ext.FIELDS

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (dict(fields={"distance"}), "batch field 'distance'.*user_data_dir"),
            (dict(fields={"relation_index"}), "max_hop in 1..253, got None"),
            (dict(fields={"relation_index"}, max_hop=254), "1..253, got 254"),
            (dict(fields={"dist"}, max_dist=254), "dist needs max_dist in 1..253"),
            (dict(fields={"path_bond"}), "path_bond needs path_length in 1"),
        ],
    )
    def test_incomplete(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            BatchSpec(**arguments)
