"""Builds the compiled kernels; everything else is declared in pyproject.toml."""

import glob
import os
import platform
import sys
import sysconfig
from pathlib import Path

# No -march=native: a wheel runs on any processor of its platform. No OpenMP: its thread
# team does not survive the fork that starts a data worker.
OPTIMISE = ["/O2"] if sys.platform == "win32" else ["-O3"]

ALLOW_ISOLATION = "GRAPHORMER_ALLOW_ISOLATION"


def second_torch_ahead() -> bool:
    """Whether pip is about to compile fairseq against a torch of its own.

    fairseq's build needs torch. In pip's build isolation that is a second one, of
    several gigabytes and perhaps another version. This happens when we are built in
    isolation (the packages of the target environment are out of reach), fairseq is not
    in the target environment yet, and no wheel of it exists for this Python.
    """
    site = sysconfig.get_paths()["purelib"]
    isolated = site not in map(os.path.normpath, sys.path)
    has_fairseq = glob.glob(os.path.join(site, "fairseq*.dist-info"))
    has_wheel = (
        sys.version_info[:2] == (3, 12)
        and sys.platform in ("linux", "win32")
        and platform.machine() in ("x86_64", "AMD64")
    )
    return isolated and not has_fairseq and not has_wheel


if second_torch_ahead() and not os.environ.get(ALLOW_ISOLATION):
    sys.exit(
        f"fairseq-fixed has no wheel for Python {sys.version_info[0]}."
        f"{sys.version_info[1]} here, and pip would download a second torch to compile "
        "it. Install in two steps instead:\n"
        "    pip install -c constraints.txt torch numpy cython setuptools wheel\n"
        "    pip install -c constraints.txt --no-build-isolation .\n"
        f"({ALLOW_ISOLATION}=1 goes on regardless, e.g. with --no-deps.)"
    )

# Imported late, so that the message above comes first where these are missing.
from Cython.Build import cythonize  # noqa: E402
from setuptools import Extension, setup  # noqa: E402

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
