"""Labels as a store has them."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data.labels import stored_labels
from graphormer_plugin.data.schema import TargetSchema, target_statistics


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
        schema = TargetSchema(["a", "b"], mean=mean, std=std)
        return schema.standardise(torch.as_tensor(labels).double()).float()

    torch.testing.assert_close(
        standardised(stored), standardised(plain), atol=3e-5, rtol=0, equal_nan=True
    )
