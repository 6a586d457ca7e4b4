"""Tests that use the fixture ``kernels`` run on the compiled and the NumPy ones."""

import importlib
import warnings

import pytest

from support.reference import KERNELS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)  # there may be no compiled kernels
    import cython_ext
    from cython_ext import _fallback


@pytest.fixture(params=["compiled", "fallback"])
def kernels(request, monkeypatch):
    if request.param == "fallback":
        for name in KERNELS:
            monkeypatch.setattr(cython_ext, name, _fallback)
    elif not cython_ext.COMPILED:
        pytest.skip("the kernels are not compiled")
    else:
        for name in KERNELS:
            module = importlib.import_module(f"cython_ext.{name}")
            monkeypatch.setattr(cython_ext, name, module)
    return request.param
