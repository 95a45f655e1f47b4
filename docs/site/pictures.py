"""Pictures of the site, each made by Cleave's tools from programs in the tree.

A document shows one by the line `<!-- picture: NAME -->`, which the repository's page does not.
"""

import dataclasses
import os
import shlex
import subprocess
import sys


@dataclasses.dataclass(frozen=True)
class Picture:
    file: str
    caption: str
    # Lines of a shell; $OUT is the folder of pictures, $WORK one for what leads to them.
    commands: tuple
    height: int = 520


# What several pictures start from, made once.
PROGRAMS = (
    "$PYTHON -m cleave.export examples/gpt.py:tied -o $WORK",
)

PICTURES = {
    "schedules": Picture(
        "schedules.html",
        "Three schedules of the same work, simulated. Choose a row of the table to see its timeline.",
        ("cleave-sim --compare=1f1b,zb-h1,zbv --ranks=4 --microbatches=8 --costs=2,2,1,0.1"
         " --activation-memory=2,1,1 --html=$OUT/schedules.html",),
        height=620,
    ),
    "zbv": Picture(
        "zbv.html",
        "The schedule zbv: two stages on each of four ranks, placed like a V.",
        ("cleave-sim --schedule=zbv --ranks=4 --microbatches=8 --costs=2,2,1,0.1 --activation-memory=2,1,1"
         " --html=$OUT/zbv.html",),
    ),
    "arena": Picture(
        "arena.svg",
        "The arena of a small GPT's training step: ops from left to right, addresses from bottom to top.",
        ("cleave-opt $WORK/gpt_tied.mlir --cse --fuse-kernels --lower-to-exec=plot=$OUT/arena.svg -o $WORK/gpt.exec.mlir",),
    ),
    "placements": Picture(
        "placements.html",
        "Where the tensors of a small GPT live on a mesh of 2 x 2 ranks, and why. Choose a module and a tensor.",
        ("$PYTHON -c 'from cleave import *; Plan({\"dp\": 2, \"tp\": 2}, {\"h.*.mlp.c_fc\": ColwiseParallel(),"
         " \"h.*.mlp.c_proj\": RowwiseParallel(), \"\": FSDP(\"dp\")}).write(\"'$WORK'/plan.json\")'",
         "cleave-opt $WORK/gpt_tied.mlir --annotate-placements=plan=$WORK/plan.json"
         " --propagate-placements=explain-json=$WORK/why.json --mlir-print-debuginfo -o $WORK/placed.mlir",
         "$PYTHON -m cleave.placement_page $WORK/why.json -o $OUT/placements.html"),
        height=720,
    ),
}


def draw(folder, build, root):
    """Runs the commands of all pictures; gives the names of those that are there."""
    work = folder.parent.parent / "work"
    folder.mkdir(parents=True)
    work.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(build / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(root / "python"),
        "PYTHON": os.environ.get("CLEAVE_PYTHON", str(root / ".venv/bin/python")),
        "OUT": str(folder),
        "WORK": str(work),
        "OMP_NUM_THREADS": "1",
    }
    for command in (*PROGRAMS, *(c for picture in PICTURES.values() for c in picture.commands)):
        result = subprocess.run(["bash", "-ec", command], cwd=root, env=environment, capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"picture: this command failed with exit status {result.returncode}:\n{command}\n{result.stderr}")
    return set(PICTURES)


def show(name, folder, shown):
    """The lines of a page that show a picture, from a folder relative to the page."""
    picture = PICTURES[name]
    if name not in shown:
        return []
    source = f"{folder}/{picture.file}"
    if picture.file.endswith(".html"):
        element = (f'<iframe class="picture" loading="lazy" src="{source}" height="{picture.height}"'
                   f' title="{picture.caption}"></iframe>')
    else:
        element = f'<a href="{source}"><img class="picture" src="{source}" alt="{picture.caption}"></a>'
    commands = " && ".join(c.replace("$OUT/", "").replace("$WORK/", "").replace("$PYTHON", "python") for c in picture.commands)
    note = f'<p class="caption">{picture.caption} Made by <code>{shlex.join([commands])[1:-1]}</code>; <a href="{source}">full page</a>.</p>'
    return ["", element, note, ""]
