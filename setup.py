"""Builds the compiled kernels; everything else is declared in pyproject.toml."""

import glob
import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

# No -march=native: a wheel runs on any processor of its platform. No OpenMP: its thread
# team does not survive the fork that starts a data worker.
# sqrtf as one instruction: nobody reads its errno.
OPTIMISE = ["/O2"] if sys.platform == "win32" else ["-O3", "-fno-math-errno"]


class BuildExtensions(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        if self.editable_mode:
            # Where `setup.py build_ext` looks, which then compiles nothing again.
            build = Distribution().get_command_obj("build")
            build.ensure_finalized()
            self.build_lib, self.build_temp = build.build_platlib, build.build_temp

    def run(self):
        super().run()
        if self.editable_mode:
            # fairseq looks for --user-dir graphormer_plugin beside itself. Python passes
            # over a folder without __init__.py and finds the package in the clone.
            site_packages = self.get_finalized_command("install").install_lib
            beside_fairseq = Path(site_packages, "graphormer_plugin")
            beside_fairseq.mkdir()
            beside_fairseq.joinpath("editable.txt").write_text(f"{Path.cwd()}\n")


setup(
    cmdclass={"build_ext": BuildExtensions},
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
    ),
)
