"""Predict Parquet files with Dask: with_dask.py CHECKPOINT INPUT OUTPUT_FOLDER."""

import sys

import dask
import dask.dataframe

from graphormer_plugin.workbench.predictions.arrow import TablePredictor

if __name__ == "__main__":
    checkpoint, source, output = sys.argv[1:]
    # On a cluster: dask.distributed.Client(ADDRESS) instead of this line.
    dask.config.set(scheduler="processes")
    molecules = dask.dataframe.read_parquet(source)
    molecules.map_partitions(TablePredictor(checkpoint)).to_parquet(output)
