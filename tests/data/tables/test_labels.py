"""Labels as a store has them."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data.tables.labels import describe_targets, stored_labels
from graphormer_plugin.data.targets import TargetSchema, target_statistics


@pytest.mark.parametrize(
    "offset, dtype", [(0, "f4"), (100, "f4"), (1e7, "f8"), (-1e8, "f8")]
)
def test_a_large_offset_changes_no_standardised_label(offset, dtype, rng):
    """Neither the offset of one target, nor a label that is missing."""
    plain = rng.normal(size=(50, 2))
    plain[3, 1] = np.nan
    stored = stored_labels(plain + [0, offset])
    assert stored.dtype == dtype

    def standardised(labels):
        mean, std = target_statistics(labels, np.arange(40))
        schema = TargetSchema.of(["a", "b"], mean=mean, std=std)
        return schema.standardise(torch.as_tensor(labels).double()).float()

    torch.testing.assert_close(
        standardised(stored), standardised(plain), atol=3e-5, rtol=0, equal_nan=True
    )


def test_large_labels_keep_their_digits():
    """Also those whose deviation is as large as they are."""
    labels = np.array([[-1070476.41801747], [-1605716.39860438], [2.0]])
    assert stored_labels(labels).tolist() == labels.tolist()
    assert stored_labels(np.array([[901259.5], [np.nan]])).dtype == np.float32


def test_classes_are_counted():
    """Up to the largest label; they have no mean."""
    labels = np.array([[0], [2], [np.nan]])
    asked = TargetSchema.of(["y"], kind="multiclass")
    targets, missing = describe_targets(labels, asked, np.arange(4), {})
    assert (targets.num_classes, targets.mean, missing) == (3, [], 1)
