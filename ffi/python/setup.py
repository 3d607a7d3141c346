"""Builds the extension module against libfampi, which becomes a part of the wheel.

The library and its header are those below `FAMPI_PREFIX` (`cargo fampi install --prefix DIR`), or
else those of the checkout that this is in. The compiler is `MPICC`, or else the one that mpi4py was
built with: both have to mean the same MPI.
"""

import os
import shutil
from pathlib import Path

import mpi4py
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


def find_library():
    """The folders of the library and of its header."""
    prefix = os.environ.get("FAMPI_PREFIX")
    if prefix:
        library, headers = Path(prefix) / "lib", Path(prefix) / "include"
    else:
        target = Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
        library, headers = target / "release", HERE.parent / "include"
    if not (library / "libfampi.so").is_file() or not (headers / "fampi.h").is_file():
        raise SystemExit(
            f"no libfampi.so in {library}: run `cargo build --release -p fampi-ffi` in the "
            "checkout, or set FAMPI_PREFIX to what `cargo fampi install --prefix` has made"
        )
    return library, headers


def compiler():
    """The compiler of the MPI that mpi4py was built with."""
    known = mpi4py.get_config().get("mpicc")
    set_up = CHECKOUT / "target/mpi/bin/mpicc"
    return os.environ.get("MPICC") or known or (str(set_up) if set_up.is_file() else "mpicc")


class WithLibrary(build_ext):
    """Puts the library beside the extension module, which looks for it there."""

    def run(self):
        super().run()
        folder = Path(self.get_ext_fullpath("fampi._core")).parent
        shutil.copy2(library / "libfampi.so", folder / "libfampi.so")


library, headers = find_library()
# In a checkout nothing is built among the sources.
in_checkout = (HERE.parent / "include/fampi.h").is_file()
work = CHECKOUT / "target/python/build" if in_checkout else HERE / "build"
work.mkdir(parents=True, exist_ok=True)
os.chdir(HERE)
os.environ["CC"] = compiler()
core = Extension(
    "fampi._core",
    ["src/fampi/_core.pyx"],
    depends=[str(headers / "fampi.h"), *map(str, Path("src/fampi").glob("_*.px*"))],
    include_dirs=[str(headers), mpi4py.get_include()],
    library_dirs=[str(library)],
    libraries=["fampi"],
    extra_link_args=["-Wl,-rpath,$ORIGIN"],
)
setup(
    ext_modules=cythonize([core], build_dir=str(work), language_level=3),
    packages=["fampi", "fampi.futures"],
    package_dir={"": "src"},
    cmdclass={"build_ext": WithLibrary},
    options={
        "build": {"build_base": str(work)},
        "egg_info": {"egg_base": str(work)},
    },
)
