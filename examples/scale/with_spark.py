"""Predict Parquet files with Spark: with_spark.py CHECKPOINT INPUT OUTPUT_FOLDER."""

import sys

from pyspark.sql import SparkSession

from graphormer_plugin.workbench.predictions.arrow import TablePredictor

if __name__ == "__main__":
    checkpoint, source, output = sys.argv[1:]
    molecules = SparkSession.builder.getOrCreate().read.parquet(source)
    predict = TablePredictor(checkpoint)
    # Spark matches a schema by position: take it from the model.
    schema = predict.spark_schema(molecules.schema)
    molecules.mapInArrow(predict, schema).write.parquet(output)
