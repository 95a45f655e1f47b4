"""What goes into the wheel beside Python: `cleave_native`, the tools, plugins for devices, and the table of typed ops.

They come from a build of Cleave: that of CLEAVE_BUILD as it is; in an installed tree the tree's own; else ./build, which
is brought up to date first. pyproject.toml has the rest.
"""

import atexit
import importlib.machinery
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ["cleave-opt", "cleave-run", "cleave-sim"]
# If the build has them.
MORE_TOOLS = ["cleave-check-proof", "cleave-plan", "cleave-prove", "cleave-reduce"]


def native_in(folder):
    """The extension module that lies in a folder, None where there is none."""
    found = sorted(folder.glob("cleave_native*.so"))
    return found[0] if found else None


def find_parts():
    """The folder of the module, that of the tools, and that of typed_ops.json."""
    package = HERE / "cleave"
    if not (HERE.parent / "CMakeLists.txt").exists():
        return package, HERE.parents[2] / "bin", package
    build = pathlib.Path(os.environ.get("CLEAVE_BUILD") or HERE.parent / "build").resolve()
    if "CLEAVE_BUILD" not in os.environ:
        if not (build / "build.ninja").exists():
            subprocess.run(["cmake", "--preset", "release"], cwd=HERE.parent, check=True)
        targets = ["cleave_native", "cleave_typed_ops", *TOOLS, *MORE_TOOLS]
        subprocess.run(["cmake", "--build", build, "--target", *targets], check=True)
    return build / "python", build / "bin", build / "python" / "cleave"


class BuildWithNative(build_py):
    def run(self):
        super().run()
        modules, tools, tables = find_parts()
        native = native_in(modules)
        if native is None:
            sys.exit(f"setup.py: expected cleave_native in {modules}, found none: run ./dev build in Cleave's checkout")
        if native.name not in {"cleave_native" + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES}:
            version = ".".join(map(str, sys.version_info[:2]))
            sys.exit(f"setup.py: expected a module for Python {version}, found {native.name}")
        package = pathlib.Path(self.build_lib, "cleave")
        self.add(native, package)
        self.add(native.with_name("cleave_native.json"), package)
        self.add(tables / "typed_ops.json", package)
        for tool in [*TOOLS, *(more for more in MORE_TOOLS if (tools / more).exists())]:
            self.add(tools / tool, package / "bin")
        for plugin in (tools.parent / "lib").glob("libcleave_cuda.so"):
            self.add(plugin, package / "lib")

    def add(self, file, folder):
        if not file.exists():
            sys.exit(f"setup.py: expected {file}, which a build makes, found none")
        folder.mkdir(parents=True, exist_ok=True)
        copy = pathlib.Path(shutil.copy(file, folder))
        with copy.open("rb") as opened:
            is_elf = opened.read(4) == b"\x7fELF"
        if is_elf and (strip := shutil.which("strip")):
            subprocess.run([strip, "--strip-unneeded", copy], check=True)


class WithNative(Distribution):
    def has_ext_modules(self):
        return True


# Nothing is written beside the sources.
scratch = tempfile.TemporaryDirectory(prefix="cleave-wheel-")
atexit.register(scratch.cleanup)
setup(
    cmdclass={"build_py": BuildWithNative},
    distclass=WithNative,
    options={"build": {"build_base": scratch.name}, "egg_info": {"egg_base": scratch.name}},
)
