"""Examples in docstrings give the output that they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import cython_ext
import graphormer_plugin

MODULES = [
    ".".join(file.relative_to(root.parent).with_suffix("").parts)
    for root in (
        Path(package.__file__).parent for package in (cython_ext, graphormer_plugin)
    )
    for file in sorted(root.rglob("*.py"))
    if ">>> " in file.read_text()
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried and not failed
