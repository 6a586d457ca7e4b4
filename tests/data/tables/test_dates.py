"""Dates in the cells of a table."""

import numpy as np
import pytest

from graphormer_plugin.data.tables.cells import read_dates

DAY = 86400.0


@pytest.mark.parametrize(
    "texts, days",
    [
        (["2024-03-31", "2024-04-01 12:00"], [0, 1.5]),
        (["31.03.2024", "01.04.2024", "soon"], [0, 1, np.nan]),
        (["31/03/2024", "01/04/2024"], [0, 1]),
        (["03/31/2024", "04/01/2024"], [0, 1]),
        (["03/03/2024", "04/04/2024"], [-28, 4]),  # the same in both orders
    ],
)
def test_ways_of_writing(texts, days):
    march = np.datetime64("2024-03-31").astype("datetime64[s]").astype(float)
    assert np.array_equal(read_dates(texts), march + DAY * np.array(days), True)
