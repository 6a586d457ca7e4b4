"""The molecules of the scripts in this folder, and their options."""

import argparse
from pathlib import Path

import pandas

from graphormer_plugin.data import DatasetOptions
from graphormer_plugin.data.benchmarks.nci import nci


def parser(doc: str, molecules: int, rounds: int) -> argparse.ArgumentParser:
    """Options of a script that measures molecules of a table in rounds.

    Args:
        doc: its docstring.
        molecules: default of ``--molecules``.
        rounds: default of ``--rounds``.
    """
    result = argparse.ArgumentParser(description=doc.partition("\n")[0])
    result.add_argument("--csv", type=Path, help="column smiles (default: RDKit's NCI)")
    result.add_argument("--molecules", type=int, default=molecules)
    result.add_argument("--rounds", type=int, default=rounds)
    return result


def read_smiles(arguments: argparse.Namespace) -> list[str]:
    """Every n-th SMILES, for about ``--molecules`` of them."""
    smiles = nci(DatasetOptions("nci")).smiles
    if arguments.csv is not None:
        smiles = pandas.read_csv(arguments.csv, usecols=["smiles"])["smiles"].tolist()
    return list(smiles[:: max(1, len(smiles) // arguments.molecules)])
