"""The command lines of cleave-opt that the README and the documents print, as recipes for any program.

A command that reads what an earlier one of its page has written goes on from that one's options. Names of
plans, tables and pictures are left to who runs the recipe.
"""

import dataclasses
import re
import shlex

# Not about what a program computes, or in need of what a test of its own builds; by a text of the command.
ELSEWHERE = {
    "file=": "needs the file: test/e2e/test_schedule_files.py",
    "cuda=": "needs ptxas: test/passes/lowering/compile-kernels-cuda.mlir",
    "--load-pass-plugin": "the examples out of tree: examples/check_installed.sh",
    "--my-pass": "a placeholder",
    "--prove-each": "remarks: test/e2e/test_prove_each.py",
    "--print-sharding-rules": "prints: test/passes/placement/print-sharding-rules.mlir",
    "--mlir-print-ir-before-all": "prints",
    "--mlir-print-debuginfo": "prints",
    "-o /dev/null": "prints or exports",
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Options of cleave-opt, and the place of the (last) command that has them."""

    where: str
    options: tuple

    def asks_for(self, pass_name):
        return re.search(rf"\b{pass_name}\b", " ".join(self.options)) is not None

    def number(self, pattern, default):
        """The number that `pattern` finds in the options."""
        found = re.search(pattern, " ".join(self.options))
        return int(found[1]) if found else default


def _code_lines(text):
    """The lines of fenced code, continued ones joined, with the number of their first."""
    inside, start, joined = False, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
            continue
        if not inside:
            continue
        start = start if joined else number
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        yield start, joined + line
        joined = ""


def recipes(source):
    """Every documented command on a program, in the order of pages and lines; equal ones once."""
    found = {}
    for page in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        written = {}
        for number, line in _code_lines(page.read_text()):
            if not line.startswith("cleave-opt ") or any(text in line for text in ELSEWHERE):
                continue
            words = shlex.split(line, comments=True)[1:]
            program = next((word for word in words if not word.startswith("-")), "")
            if not program.endswith((".mlir", ".mlirbc")):
                continue
            output = words[words.index("-o") + 1] if "-o" in words else None
            options = [word for word in words if word.startswith("--") and word != "--emit-bytecode"]
            whole = (*written.get(program, ()), *options)
            written[output] = whole
            found.setdefault(whole, f"{page.stem}:{number}")
    return [Recipe(where, options) for options, where in found.items()]
