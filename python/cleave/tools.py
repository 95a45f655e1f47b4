"""The tools of an installed wheel: `cleave-opt` and its like, as commands of the environment."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import sys


def find_tool(name: str) -> str:
    """Where a tool is: in a wheel, in the build that is named, in that of the checkout, or on the path."""
    package = pathlib.Path(__file__).resolve().parent
    folders = [package / "bin", package.parent.parent / "build" / "bin"]
    if build := os.environ.get("CLEAVE_BUILD"):
        folders.insert(1, pathlib.Path(build) / "bin")
    places = [str(folder / name) for folder in folders if (folder / name).exists()]
    if not places and not (found := shutil.which(name)):
        raise FileNotFoundError(f"expected {name} in {' or '.join(map(str, folders))} or on the path, found none")
    return places[0] if places else found


def main() -> None:
    """Becomes the tool of the name by which it was called."""
    name = pathlib.Path(sys.argv[0]).name
    tool = pathlib.Path(__file__).resolve().parent / "bin" / name
    if not tool.exists():
        sys.exit(f"{name}: this wheel of Cleave was built without it: {tool} is not there")
    # cleave-run takes the libraries of this environment's torch, wherever that is. Nothing imports it.
    if torch := importlib.util.find_spec("torch"):
        folders = [str(pathlib.Path(torch.origin).parent / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    os.execv(tool, [str(tool), *sys.argv[1:]])
