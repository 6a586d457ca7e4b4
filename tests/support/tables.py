"""Tables that tests and commands write."""

import csv
import gzip


def write_file(path, content):
    """A file of text or bytes, packed if its name says so; returns the path."""
    data = content.encode() if isinstance(content, str) else content
    packed = path.name.lower().endswith(".gz")
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def rows(path="out.csv"):
    """A dictionary for each row of a CSV file, which may be packed."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
