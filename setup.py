"""Builds the compiled kernels; everything else is declared in pyproject.toml."""

import glob
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# No -march=native: a wheel runs on any processor of its platform. No OpenMP: its thread
# team does not survive the fork that starts a data worker.
OPTIMISE = ["/O2"] if sys.platform == "win32" else ["-O3"]

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"cython_ext.{path.stem}",
                [str(path)],
                depends=glob.glob("cython_ext/*.h"),
                extra_compile_args=OPTIMISE,
            )
            for path in sorted(Path("cython_ext").glob("*.pyx"))
        ]
    )
)
