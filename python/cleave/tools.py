"""The tools of an installed wheel: `cleave-opt` and its like, as commands of the environment."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys


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
