"""Many typed programs as one program for cleave-opt and cleave-run: one function, one loss."""

import torch

from .compute import COMPUTE
from .operations import Op
from .program import type_text


class Module:
    """Programs over one mesh. Each program's loss is a result of its own; what is differentiated is their sum."""

    def __init__(self, mesh, programs):
        self.mesh = mesh
        self.programs = programs

    def tensors(self, gradient):
        """The leaves' whole tensors by name: parameters (weights) or inputs."""
        return {
            s.name: p.tensors[s.name]
            for p in self.programs
            for s in p.steps
            if s.op == "leaf" and s.gradient == gradient
        }

    def text(self, started=False):
        """A forward program: what `cleave-opt --autodiff` takes. `started`: its communications wait apart."""
        arguments, results, body = [], [], []
        for program in self.programs:
            for index, step in enumerate(program.steps):
                if step.op == "leaf":
                    role = "parameter" if step.gradient else "input"
                    arguments.append(
                        f"{program.ssa(index)}: {program.type(index)} "
                        f'{{train.role = #train.role<{role} "{step.name}">}}'
                    )
            body += program.lines(started)
            for index in program.results:
                name = f"{program.prefix}r{index}"
                results.append((program.ssa(index), program.type(index), f'output "{name}"'))
            if program.loss is not None:
                results.append(
                    (
                        program.ssa(program.loss),
                        program.type(program.loss),
                        f'output "{program.prefix}loss"',
                    )
                )
        if any(p.loss is not None for p in self.programs):
            results.insert(0, self._total(body))
        lines = [
            "module {",
            "  " + self.mesh.text(),
            "  func.func @microbatch(",
            ",\n".join("      " + a for a in arguments) + ")",
            "      -> (",
            ",\n".join(f"      {t} {{train.role = #train.role<{r}>}}" for _, t, r in results) + ")",
            "      attributes {train.phase = #train.phase<microbatch>} {",
            *("    " + line for line in body),
            f"    return {', '.join(v for v, _, _ in results)} : {', '.join(t for _, t, _ in results)}",
            "  }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _total(self, body):
        """Adds the losses up, those of one type first, and reduces the sums: a loss of type I."""
        by_type = {}
        for program in self.programs:
            if program.loss is not None:
                kinds = program.steps[program.loss].kinds
                by_type.setdefault(tuple(sorted(kinds.items())), []).append(program)
        number = 0

        def emit(text, kinds):
            nonlocal number
            number += 1
            body.append(f"%total{number} = {text} -> {scalar(kinds)}")
            return f"%total{number}"

        def scalar(kinds):
            return type_text((), torch.float64, kinds)

        def add(values, kinds):
            total = values[0]
            for value in values[1:]:
                operands = COMPUTE["add"].text([total, value])
                total = emit(f"{operands} : ({scalar(kinds)}, {scalar(kinds)})", kinds)
            return total

        totals = []
        for kinds, programs in by_type.items():
            kinds = dict(kinds)
            total = add([p.ssa(p.loss) for p in programs], kinds)
            for axis, kind in list(kinds.items()):
                if kind == "P":
                    op = Op("all_reduce", (axis,), reduction="sum")
                    after = {**kinds, axis: "I"}
                    total = emit(f"{op.prefix(total)} : {scalar(kinds)}", after)
                    kinds = after
            totals.append(total)
        return add(totals, kinds), scalar(kinds), "loss"
