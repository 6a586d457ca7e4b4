"""CSV files that commands write."""

import csv


def rows(path="out.csv"):
    """A dictionary for each row."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
