"""Tests that use the fixture ``kernels`` run on the compiled and the NumPy ones."""

import importlib
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)  # there may be no compiled kernels
    import cython_ext
    from cython_ext import _fallback


@pytest.fixture(params=["compiled", "fallback"])
def kernels(request, monkeypatch):
    if request.param == "fallback":
        monkeypatch.setattr(cython_ext, "_batch", _fallback)
        monkeypatch.setattr(cython_ext, "_shortest_path", _fallback)
    elif not cython_ext.COMPILED:
        pytest.skip("the kernels are not compiled")
    else:
        for name in ("_batch", "_shortest_path"):
            module = importlib.import_module(f"cython_ext.{name}")
            monkeypatch.setattr(cython_ext, name, module)
    return request.param
