"""Programs in Python: traced, changed by passes, printed, saved and loaded."""

from __future__ import annotations

import collections
import json
import math
import os
import pathlib
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from cleave.errors import Error
from cleave.export.errors import ExportError, ExportNote
from cleave.figures import Costs, Page, Picture, RankCosts, Timeline, program_html
from cleave.native import native
from cleave.ops import Op
from cleave.passes import pipeline_text
from cleave.plan import Plan


class Program:
    """A training step as an MLIR module (docs/ir.md), with the tensors that go with it.

    tensors: parameters, buffers and constants by name; those of a traced module are the module's own.
    plan: how it is to lie on a mesh, where it was traced with a plan; see `place`.
    """

    def __init__(
        self, text: str | bytes, name: str = "program", *, tensors: Mapping[str, torch.Tensor] | None = None,
        plan: Plan | None = None,
    ):  # fmt: skip
        data = text.encode() if isinstance(text, str) else bytes(text)
        self._native = native().Program.parse(data, name)
        self.tensors = dict(tensors or {})
        self.plan = plan

    @property
    def name(self) -> str:
        """What errors call it: a file's path, or a name."""
        return self._native.name

    def run_passes(self, passes: str | Iterable[str]) -> Program:
        """Runs passes on it, and returns it.

        passes: as on cleave-opt's command line, "--sync-gradients=axis=dp --cse", or in MLIR's syntax,
        "sync-gradients{axis=dp},cse"; or several of these. Raises Error, and then leaves the program as it was.
        """
        if text := pipeline_text(passes):
            self._native.run_passes(text)
        return self

    def place(self) -> Program:
        """Lays the program out on the mesh of its plan: each rank's part of it."""
        with tempfile.TemporaryDirectory(prefix="cleave-") as folder:
            return self.run_passes(f"{self._annotate(folder)},propagate-placements,partition")

    def _annotate(self, folder: str) -> str:
        if self.plan is None:
            raise ExportError("the program was traced without a mesh and a plan: there is nothing to place it by")
        return f"annotate-placements{{plan={self.plan.write(pathlib.Path(folder, 'plan.json'))}}}"

    # Ops ----------------------------------------------------------------------------------------

    def ops(self, name: str | None = None) -> list[Op]:
        """All ops, or those of a name ("aten.mm"), in the program's order, each before those in it."""
        found = [Op(self, each) for each in self._native.walk()]
        return found if name is None else [op for op in found if op.name == name]

    def rewrite(self, change: Callable[[Program], Any]) -> Program:
        """Has a function change the program, its only argument, by its ops; verifies the result, and returns it.

        A pass in Python. After an exception of the function's, or an Error because the result is not valid, the program is
        what it was before.
        """
        self._native.begin_rewrite()
        try:
            change(self)
        except BaseException:
            self._native.end_rewrite(False)
            raise
        self._native.end_rewrite(True)
        return self

    # Figures ------------------------------------------------------------------------------------

    def costs(self, microbatches: int = 1) -> Costs | RankCosts:
        """What a step takes on one rank; of a program with a schedule, on each along the pipeline."""
        ranks = RankCosts(Costs(**each) for each in native().costs(self._native, microbatches))
        return ranks if len(ranks) > 1 else ranks[0]

    def memory_plot(self) -> Picture:
        """Addresses over time, of all that functions have in planned memory (`--lower-to-exec`)."""
        with tempfile.TemporaryDirectory(prefix="cleave-") as folder:
            path = pathlib.Path(folder, "memory.svg")
            self._copy().run_passes(f"lower-to-exec{{plot={path}}}")
            return Picture(path.read_text())

    def placements(self) -> Page:
        """How each tensor lies on the mesh of its plan, and why; of a program before `place`."""
        from cleave.placement_page import render

        with tempfile.TemporaryDirectory(prefix="cleave-") as folder:
            path = pathlib.Path(folder, "placements.json")
            self._copy().run_passes(f"{self._annotate(folder)},propagate-placements{{explain-json={path}}}")
            return Page(render(json.loads(path.read_text()), self.name))

    def timeline(self, **options) -> Timeline:
        """What each rank does when, simulated by cleave-sim: of a program with a schedule, or with stages and `schedule`.

        options: cleave-sim's, such as costs="2,2,1,0.1", schedule="zbv", ranks=4, cluster="H100", or profile and measured,
            files that `cleave-run --profile` wrote: the measured step beside the simulated one.
        """
        from cleave.tools import find_tool

        given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        with tempfile.TemporaryDirectory(prefix="cleave-") as folder:
            program, page = pathlib.Path(folder, "program.mlirbc"), pathlib.Path(folder, "timeline.html")
            program.write_bytes(self._native.serialize())
            ran = subprocess.run(
                [find_tool("cleave-sim"), str(program), *given, "--json", f"--html={page}"], capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            if ran.returncode:
                raise Error(ran.stderr.strip().replace(str(program), self.name))
            return Timeline(page.read_text(), json.loads(ran.stdout))

    def _copy(self) -> Program:
        return Program(self._native.serialize(), self.name)

    # Text ---------------------------------------------------------------------------------------

    def text(self, locations: bool = False) -> str:
        """As text, on request with the Python line of each op."""
        return self._native.text(locations)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<cleave.Program '{self.name}'>"

    def _repr_html_(self) -> str:
        functions: dict[str, tuple[collections.Counter[str], str]] = {}
        for op in self.ops():
            if op.name == "func.func":
                ops = functions.setdefault(op.function, (collections.Counter(), str(op)))[0]
            elif op.function:
                functions[op.function][0][op.name] += 1
        return program_html(self.name, self._values(), functions)

    def _values(self) -> list[tuple[str, int, int, int]]:
        """Tensors, elements and bytes of each role; none of what is no whole program."""
        try:
            signature = native().signature(self._native)
        except Error:
            return []
        totals: dict[str, list[int]] = {}
        for value in (*signature["weights"], *signature["optimizer_states"], *signature["inputs"]):
            elements = math.prod(value["shape"])
            total = totals.setdefault(value["role"].replace("_", " "), [0, 0, 0])
            for place, number in enumerate((1, elements, elements * value["dtype"].itemsize)):
                total[place] += number
        return [(role, *total) for role, total in totals.items()]

    def save(self, path: str | os.PathLike) -> pathlib.Path:
        """Writes the program as cleave-run and cleave-opt read it: bytecode where `path` ends in .mlirbc, else text;
        its tensors, if it has some, to a file of its stem that ends in .safetensors."""
        from cleave.tensor_files import save_file

        path = pathlib.Path(path)
        data = self._native.serialize() if path.suffix == ".mlirbc" else self.text(locations=True).encode()
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.tensors.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        # All files are complete before one takes its name.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".save-") as folder:
            program, weights = pathlib.Path(folder, "program"), pathlib.Path(folder, "weights")
            program.write_bytes(data)
            if tensors:
                save_file(tensors, weights)
                os.replace(weights, path.with_suffix(".safetensors"))
            os.replace(program, path)
        return path


def load(path: str | os.PathLike) -> Program:
    """The program in a file, text or bytecode; its tensors from the .safetensors of the same stem, if there is one."""
    from cleave.checkpoint import read_file

    path = pathlib.Path(path)
    weights = path.with_suffix(".safetensors")
    tensors = read_file(weights) if weights.exists() else {}
    return Program(path.read_bytes(), str(path), tensors=tensors)


def trace(module: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None = None, **options) -> Program:
    """Traces a training step as `cleave.export` does, with its options, but writes no file.

    Raises ExportError; warns with ExportNote.
    """
    from cleave.export.spec import ExportSpec

    return trace_spec(ExportSpec(module, args, kwargs, **options))


def trace_spec(spec) -> Program:
    """The same for an ExportSpec."""
    from cleave.export.capture import capture
    from cleave.export.operators import load_typed_ops
    from cleave.export.program import Program as Writer
    from cleave.export.pytorch import unset_fake_temporarily

    spec.check()
    load_typed_ops()  # refuses before anything is traced
    with unset_fake_temporarily():
        written = Writer(spec, capture(spec))
    for note in written.notes:
        warnings.warn(note, ExportNote, stacklevel=3)
    return Program(written.text, spec.name, tensors=written.tensors, plan=spec.plan)
