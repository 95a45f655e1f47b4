"""Changes of one op of a rank's program, as text, however large: what bench/large_models.py --mutants asks the prover
about."""

import random
import re

OP = re.compile(r"    (?P<result>%\w+) = (?P<name>(?:aten|dist|train)\.\w+)")
TENSOR = r"(tensor<[^<>]*>)"
REAL = re.compile(r"-> (tensor<[^<>]*x(?:bf|f)\d+[^<>]*>)$")
LIKE = re.compile(rf"\({TENSOR}(?:, {TENSOR})?\) -> {TENSOR}$")


class Changes:
    """Of these functions, all but what only moves or names values."""

    def __init__(self, text, functions=("forward", "backward")):
        self.lines = text.splitlines()
        self.ops, self.ends, self.made = [], {}, {}
        function = None
        for i, line in enumerate(self.lines):
            if found := re.match(r"  func\.func @(\w+)\(", line):
                function = found[1] if found[1] in functions else None
            if line.startswith("  }"):
                self.ends.update(dict.fromkeys(self.ops[len(self.ends) :], i))
                function = None
            if function and OP.match(line):
                self.ops.append(i)
                # The values of real numbers of each type, with the lines that make them.
                if found := REAL.search(line):
                    self.made.setdefault((function, found[1]), []).append((i, OP.match(line)["result"]))
        self.function = {}
        for (function, _), values in self.made.items():
            self.function.update((i, function) for i, _ in values)

    def draw(self, seed):
        """(what was done, the program, the lines that are changed or take what is changed)"""
        drawn = random.Random(seed)
        while True:
            kind = drawn.choice([self.other_op, self.scaled, self.doubled, self.dropped, self.other_reduction,
                                 self.other_axis, self.other_number, self.other_operand])  # fmt: skip
            if changed := kind(drawn, drawn.choice(self.ops)):
                return changed

    def _with(self, what, at, new, behind=None, rename=None):
        """The program with `new` as line `at`, and `behind` after it; later lines take `rename[1]` for `rename[0]`."""
        lines = list(self.lines)
        lines[at] = new
        result = OP.match(self.lines[at])["result"]
        name = re.compile(re.escape(rename[0] if rename else result) + r"\b")
        users = [i for i in range(at + 1, self.ends[at] + 1) if name.search(lines[i])]
        if rename:
            for i in users:
                lines[i] = name.sub(rename[1], lines[i])
        if behind:
            lines.insert(at + 1, behind)
            users = [at + 1, *(i + 1 for i in users)]
        # Lines of a file are counted from 1.
        return what, "\n".join(lines) + "\n", {i + 1 for i in (at, *users)}

    def _parts(self, at):
        line = self.lines[at]
        return line, OP.match(line)

    def other_op(self, drawn, at):
        line, op = self._parts(at)
        names = ["aten.add", "aten.sub", "aten.mul"]
        if op["name"] not in names or "alpha" in line:
            return None
        other = drawn.choice([name for name in names if name != op["name"]])
        return self._with(f"{other} for {op['name']}", at, line.replace(op["name"] + "(", other + "("))

    def _behind(self, at, what, write):
        line, op = self._parts(at)
        found = REAL.search(line)
        if not found:
            return None
        made = "%changed"
        behind = f"    {made} = {write(op['result'], found[1])}"
        return self._with(f"{what} {op['name']}", at, line, behind, (op["result"], made))

    def scaled(self, drawn, at):
        factor = drawn.choice([2.0, 0.5, -1.0])
        return self._behind(
            at, f"{factor} times", lambda value, type: f"aten.mul_scalar({value}, other = {factor}) : ({type}) -> {type}"
        )

    def doubled(self, drawn, at):
        return self._behind(at, "twice", lambda value, type: f"aten.add({value}, {value}) : ({type}, {type}) -> {type}")

    def dropped(self, drawn, at):
        """A reduction, or another op, of one operand that has its result's shape."""
        line, op = self._parts(at)
        found = re.match(rf"    %\w+ = [\w.]+(?: \w+)?\((%\w+)\).* : \(?{TENSOR}\)? -> {TENSOR}$", line)
        if not found or op["name"] in ("aten.clone", "aten.alias", "dist.reinterpret"):
            return None
        if found[2].split(",")[0].rstrip(">") != found[3].split(",")[0].rstrip(">"):
            return None
        # Types of what is communicated differ, and are believed by nobody.
        taken = f"    {op['result']} = dist.reinterpret {found[1]} : {found[2]} -> {found[3]}"
        return self._with(f"without {op['name']}", at, taken)

    def other_reduction(self, drawn, at):
        line, op = self._parts(at)
        if op["name"] not in ("dist.all_reduce", "dist.reduce_scatter") or " sum(" not in line:
            return None
        return self._with(f"an average by {op['name']}", at, line.replace(" sum(", " avg(", 1))

    def other_axis(self, drawn, at):
        line, op = self._parts(at)
        found = re.search(r'\["(dp|tp)"\]', line)
        if op["name"] != "dist.all_reduce" or not found:
            return None
        other = "tp" if found[1] == "dp" else "dp"
        return self._with(f"{op['name']} over {other}", at, line.replace(found[0], f'["{other}"]'))

    def other_number(self, drawn, at):
        line, op = self._parts(at)
        found = re.search(r"(other|value) = (-?\d+\.\d+(?:e[+-]?\d+)?)", line)
        if not found or float(found[2]) == 0.0:
            return None
        other = f"{found[1]} = {float(found[2]) * drawn.choice([2, 0.5]):e}"
        return self._with(f"another number of {op['name']}", at, line.replace(found[0], other, 1))

    def other_operand(self, drawn, at):
        """A value of the same type that is made before it."""
        line, op = self._parts(at)
        types = LIKE.search(line)
        operands = re.match(r"    %\w+ = [\w.]+\((%\w+)(?:, (%\w+))?", line)
        if not types or not operands:
            return None
        number = drawn.choice([1, 2]) if operands[2] and types[2] else 1
        made = self.made.get((self.function.get(at), types[number]), ())
        others = [name for i, name in made if i < at and name != operands[number]]
        if not others:
            return None
        begin, end = operands.span(number)
        other = drawn.choice(others[-64:])  # near: of the same or the last layers
        return self._with(f"another operand of {op['name']}", at, line[:begin] + other + line[end:])
