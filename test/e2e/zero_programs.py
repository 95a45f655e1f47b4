"""ZeRO by hand, of what `--sync-gradients` leaves: ranks have shards, along the axis of the batch, of optimizer states, then also of
gradients that microbatches add up, then also of parameters."""

import re

ROLE = r"train\.role = #train\.role<{kind} \"{name}\"(?: slot \"(\w+)\")?(?: aliases \[[^\]]*\])?>"


def split(type_, ranks):
    """The shard of a tensor type along its first dimension; None if it has none."""
    found = re.fullmatch(r"tensor<(\d+)x(.*)>", type_)
    if not found or int(found[1]) % ranks:
        return None
    return f"tensor<{int(found[1]) // ranks}x{found[2]}>"


class Zero:
    """A program in which `level` of ZeRO is written for the parameters whose first dimension `ranks` divide."""

    def __init__(self, text, ranks, level, axis="dp"):
        self.axis, self.ranks, self.level = axis, ranks, level
        # One argument and one result a line, however long the signature is.
        heads = re.sub(r"^  func\.func.*$", self.head, text, flags=re.MULTILINE)
        ends = re.sub(r"^    return .*?(?=\n  \})", lambda end: re.sub(r"\s*\n\s*", " ", end[0]), heads, flags=re.MULTILINE | re.DOTALL)
        self.lines = ends.split("\n")
        functions = [number for number, line in enumerate(self.lines) if line.startswith("  func.func")]
        assert len(functions) == 2, "a microbatch and an update"
        update = self.lines[functions[1] :]
        microbatch = self.lines[functions[0] : functions[1]]
        self.names = [
            re.search(r'gradient "([^"]+)"', line)[1] for line in update if "%" in line and "#train.role<gradient" in line
            and split(re.search(r": (tensor<\S+>) \{", line)[1], ranks)
        ]  # fmt: skip
        for name in self.names:
            self.update(update, name)
            if level >= 2:
                self.gradient(microbatch, name)
            if level >= 3:
                self.parameter(microbatch, name)
        self.lines[functions[0] :] = microbatch + update

    @staticmethod
    def head(line):
        text = line[0].replace("(%", "(\n      %").replace("}, %", "},\n      %").replace("}, tensor", "},\n      tensor")
        return text.replace(") -> (", ")\n      -> (\n      ").replace(") attributes", ")\n      attributes")

    def text(self):
        return "\n".join(self.lines)

    def shard(self, lines, kind, name):
        """Gives arguments and results of this role the types of shards; the arguments, and the whole type."""
        arguments, type_ = [], None
        for number, line in enumerate(lines):
            found = re.match(rf"^(\s+(%\S+: )?)(tensor<\S+>) \{{({ROLE.format(kind=kind, name=re.escape(name))})\}}(.*)$", line)
            if not found:
                continue
            type_ = found[3]
            place = f"dist.placement = #dist.on<@mesh, {self.axis} = S(0)>"
            lines[number] = f"{found[1]}{split(type_, self.ranks)} {{{found[4]}, {place}}}{found[6]}"
            if found[2]:
                arguments.append(found[2][:-2])
        return arguments, type_

    def returned(self, lines, value, type_):
        """The line that returns, with another type where it has `value`."""
        number = next(number for number, line in enumerate(lines) if re.match(r"\s+return ", line))
        values, types = lines[number].strip()[len("return ") :].split(" : ")
        values, types = values.split(", "), types.split(", ")
        types[values.index(value)] = type_
        lines[number] = f"    return {', '.join(values)} : {', '.join(types)}"
        return number

    def update(self, lines, name):
        over = f'over @mesh ["{self.axis}"]'
        gradient = next(re.match(r"\s+(%\S+):", line)[1] for line in lines if f'gradient "{name}"' in line and "%" in line)
        self.shard(lines, "optimizer_state", name)
        reduce = next(number for number, line in enumerate(lines) if f"dist.all_reduce sum({gradient})" in line)
        result, whole = re.match(r"\s+(%\S+) = .* : (tensor<\S+>)", lines[reduce]).groups()
        part = split(whole, self.ranks)
        at = next(number for number, line in enumerate(lines) if re.search(rf"train\.\w+\(%\S+, {result},", line))
        step = re.match(r"\s+((?:%\S+, )*%\S+) = (train\.\w+)\((%\S+), (%\S+)(, .*) : (tensor<\S+>)$", lines[at])
        new, op, parameter, rest = step[1].split(", "), step[2], step[3], step[5]
        tag = re.sub(r"\W", "_", name)
        if self.level >= 2:
            self.shard(lines, "gradient", name)
            lines[reduce] = ""
            taken = gradient
        else:
            lines[reduce] = f"    {result} = dist.reduce_scatter sum({gradient}) dim 0 {over} : {whole} -> {part}"
            taken = result
        before = []
        if self.level < 3:
            before = self.own(parameter, f"%mine_{tag}", whole, part, tag)
            parameter = f"%mine_{tag}"
        else:
            self.shard(lines, "parameter", name)
        first = new[0]
        made = [first if self.level >= 3 else f"%new_{tag}"] + new[1:]
        after = [f"    {', '.join(made)} = {op}({parameter}, {taken}{rest} : {part}"]
        if self.level < 3:
            after.append(f"    {first} = dist.all_gather(%new_{tag}) dim 0 {over} : {part} -> {whole}")
        lines[at] = "\n".join(before + after)
        for value in new[1:] if self.level < 3 else new:
            self.returned(lines, value, part)

    def own(self, value, result, whole, part, tag):
        """A rank's part of what all have: the rows at its place."""
        rows = int(re.match(r"tensor<(\d+)", part)[1])
        types = f"tensor<{rows}xi64>"
        return [
            f'    %place_{tag} = dist.axis_index over @mesh ["{self.axis}"] : tensor<i64>',
            f"    %first_{tag} = aten.mul_scalar(%place_{tag}, other = {rows}) : (tensor<i64>) -> tensor<i64>",
            f"    %rows_{tag} = aten.arange(end = {rows}) : () -> {types}",
            f"    %at_{tag} = aten.add(%rows_{tag}, %first_{tag}) : ({types}, tensor<i64>) -> {types}",
            f"    {result} = aten.index_select({value}, %at_{tag}, dim = 0) : ({whole}, {types}) -> {part}",
        ]

    def gradient(self, lines, name):
        """Adds up shards of the sum over ranks."""
        accumulators, whole = self.shard(lines, "accumulator", name)
        self.shard(lines, "gradient", name)
        part, tag = split(whole, self.ranks), re.sub(r"\W", "_", name)
        at = next(number for number, line in enumerate(lines) if f"into {accumulators[0]} :" in line)
        result, added = re.match(r"\s+(%\S+) = train\.accumulate (%\S+) into", lines[at]).groups()
        lines[at] = (
            f'    %part_{tag} = dist.reduce_scatter sum({added}) dim 0 over @mesh ["{self.axis}"] : {whole} -> {part}\n'
            f"    {result} = train.accumulate %part_{tag} into {accumulators[0]} : {part}"
        )
        self.returned(lines, result, part)

    def parameter(self, lines, name):
        """Gathers a parameter where a microbatch begins."""
        (parameter,), whole = self.shard(lines, "parameter", name)
        begin = next(number for number, line in enumerate(lines) if "train.phase" in line)
        tag = re.sub(r"\W", "_", name)
        for number in range(begin + 1, len(lines)):
            lines[number] = re.sub(rf"{re.escape(parameter)}(?![\w.])", f"%whole_{tag}", lines[number])
        gather = f'    %whole_{tag} = dist.all_gather({parameter}) dim 0 over @mesh ["{self.axis}"] : {split(whole, self.ranks)} -> {whole}'
        lines[begin] += "\n" + gather
