"""Predict Parquet files with Ray Data: with_ray.py CHECKPOINT INPUT OUTPUT_FOLDER."""

import sys

import ray

from graphormer_plugin.workbench.predictions.arrow import TablePredictor

if __name__ == "__main__":
    checkpoint, source, output = sys.argv[1:]
    molecules = ray.data.read_parquet(source)
    predicted = molecules.map_batches(
        TablePredictor(checkpoint), batch_format="pyarrow", batch_size=4096
    )
    predicted.write_parquet(output)
