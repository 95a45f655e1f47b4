"""A GPT without attention, typed for a mesh: data-parallel, tensor-parallel as in Megatron, and if asked
for with sharded matrices; as text, with weights and a batch.

Data are divided over "dp", hidden units over "tp" (type I between the blocks). With `sharded` a rank
holds its part over "dp" of each block's second matrix, gathers it in each microbatch, and scatters the
sum of its gradient.
"""

import re
import subprocess

import torch
from safetensors.torch import save_file

VOCABULARY, WIDTH, HIDDEN, LENGTH = 32, 16, 32, 8


class Builder:
    """Writes ops; a value is its name, local shape and placements, all of which the types show."""

    def __init__(self, dp, tp):
        self.mesh = {"dp": dp, "tp": tp}
        self.lines, self.arguments, self.count = [], [], 0

    @staticmethod
    def type(shape, placement, element="f32"):
        dims = "".join(f"{d}x" for d in shape)
        axes = ", ".join(f"{axis} = {placement[axis]}" for axis in sorted(placement))
        return f"tensor<{dims}{element}, #dist.on<@mesh, {axes}>>"

    def argument(self, role, shape, placement, element="f32"):
        """`shape` is the whole one; a rank holds its part."""
        local = list(shape)
        for axis, place in placement.items():
            if found := re.match(r"S\((\d)", place):
                local[int(found[1])] //= self.mesh[axis]
        name = f"%a{len(self.arguments)}"
        self.arguments.append(f"{name}: {self.type(local, placement, element)} {{train.role = #train.role<{role}>}}")
        return name, tuple(local), placement, element

    def op(self, text, operands, shape, placement, module, element="f32", extra=()):
        """`text` names operands {0}, {1}, ...; further results are of `extra` (shape, placement)."""
        results = [(shape, placement, element), *((s, p, "f32") for s, p in extra)]
        self.count += 1
        name = f"%v{self.count}"
        types = [self.type(*r) for r in results]
        many = f"{name}:{len(types)}" if len(types) > 1 else name
        taken = ", ".join(self.type(*o[1:]) for o in operands)
        given = types[0] if len(types) == 1 else f"({', '.join(types)})"
        head = text.format(*(o[0] for o in operands))
        taken = taken if text.startswith("dist.") else f"({taken})"
        self.lines.append(f'    {many} = {head} : {taken} -> {given} loc("{module}")')
        return f"{name}#0" if len(types) > 1 else name, shape, placement, element


def forward(layers, dp, tp, sharded):
    """The text of a forward-only program."""
    b = Builder(dp, tp)
    rows = 2 * LENGTH  # of one rank
    data = {"dp": "S(0)", "tp": "I"}

    def parameter(name, shape, tp_place):
        place = {"dp": "R", "tp": tp_place}
        is_sharded = sharded and tp_place == "S(1)"
        if is_sharded:
            place["dp"] = "S(0)"
        value = b.argument(f'parameter "{name}"', shape, place)
        if not is_sharded:
            return value
        whole = (value[1][0] * dp, *value[1][1:])
        return b.op('dist.all_gather({0}) dim 0 over @mesh ["dp"]', [value], whole,
                    place | {"dp": "R"}, name.rsplit(".", 1)[0])  # fmt: skip

    tokens = b.argument('input "tokens" batch 0', (2 * dp, LENGTH), data, "i64")
    targets = b.argument('target "targets" batch 0', (2 * dp, LENGTH, VOCABULARY), data)
    wte = parameter("wte.weight", (VOCABULARY, WIDTH), "I")
    x = b.op("aten.embedding({0}, {1})", [wte, tokens], (2, LENGTH, WIDTH), data, "wte")
    x = b.op(f"aten.view({{0}}, size = [{rows}, {WIDTH}])", [x], (rows, WIDTH), data, "wte")
    inner = HIDDEN // tp
    wide, pending = data | {"tp": "S(1)"}, data | {"tp": "P"}
    for i in range(layers):
        h = f"h.{i}"
        gain, bias = (parameter(f"{h}.ln.{n}", (WIDTH,), "I") for n in ("weight", "bias"))
        n = b.op(f"aten.native_layer_norm({{0}}, normalized_shape = [{WIDTH}], {{1}}, {{2}}, eps = 1.0e-05)",
                 [x, gain, bias], x[1], data, f"{h}.ln", extra=[((rows, 1), data)] * 2)  # fmt: skip
        n = b.op("dist.convert {0}", [n], n[1], data | {"tp": "R"}, f"{h}.mlp")
        up = parameter(f"{h}.mlp.up.weight", (HIDDEN, WIDTH), "S(0)")
        offset = parameter(f"{h}.mlp.up.bias", (HIDDEN,), "S(0)")
        up = b.op("aten.t({0})", [up], (WIDTH, inner), up[2] | {"tp": "S(1)"}, f"{h}.mlp.up")
        y = b.op("aten.addmm({0}, {1}, {2})", [offset, n, up], (rows, inner), wide, f"{h}.mlp.up")
        y = b.op("aten.gelu({0})", [y], y[1], wide, f"{h}.mlp")
        down = parameter(f"{h}.mlp.down.weight", (WIDTH, HIDDEN), "S(1)")
        down = b.op("aten.t({0})", [down], (inner, WIDTH), down[2] | {"tp": "S(0)"}, f"{h}.mlp.down")
        y = b.op("aten.mm({0}, {1})", [y, down], (rows, WIDTH), pending, f"{h}.mlp.down")
        y = b.op('dist.all_reduce sum({0}) over @mesh ["tp"]', [y], y[1], data, f"{h}.mlp.down")
        x = b.op("aten.add({0}, {1})", [x, y], x[1], data, h)
    head = parameter("lm_head.weight", (VOCABULARY, WIDTH), "I")
    head = b.op("aten.t({0})", [head], (WIDTH, VOCABULARY), head[2], "lm_head")
    logits = b.op("aten.mm({0}, {1})", [x, head], (rows, VOCABULARY), data, "lm_head")
    log = b.op("aten._log_softmax({0}, dim = 1, half_to_float = false)", [logits], logits[1], data, "loss")
    wanted = b.op(f"aten.view({{0}}, size = [{rows}, {VOCABULARY}])", [targets], logits[1], data, "loss")
    total = {"dp": "P", "tp": "I"}
    loss = b.op("aten.mul({0}, {1})", [log, wanted], logits[1], data, "loss")
    loss = b.op("aten.sum({0})", [loss], (), total, "loss")
    loss = b.op(f"aten.mul_scalar({{0}}, other = {-1 / (rows * dp)!r})", [loss], (), total, "loss")
    result = b.type((), total)
    return "\n".join([
        "module @typed_gpt {", f'  dist.mesh @mesh ["dp" = {dp}, "tp" = {tp}]',
        f"  func.func @microbatch({', '.join(b.arguments)}) -> ({result} {{train.role = #train.role<loss>}})",
        "      attributes {train.phase = #train.phase<microbatch>} {", *b.lines,
        f"    return {loss[0]} : {result}", "  }", "}"])  # fmt: skip


def add_training(text):
    """Gives a joint program accumulators, and an update by SGD that sums over "dp" what is pending there."""
    # Long signatures and returns are printed in several lines.
    for part in (r"func\.func @microbatch\(.*?\{(?=\n)", r"(?<=\n)    return .*?(?=\n  \})"):
        text = re.sub(part, lambda m: re.sub(r"\s*\n\s*", " ", m[0]), text, count=1, flags=re.DOTALL)
    head, signature, rest = re.split(r"(func\.func @microbatch\(.*\n)", text, maxsplit=1)
    pattern = r"(tensor<[^>]*?(?:, #\w+)?>) \{train\.role = #train\.role<%s \"([^\"]+)\">\}"
    arguments, results = signature.split(" -> (")
    parameters = {name: kind for kind, name in re.findall(pattern % "parameter", arguments)}
    gradients = re.findall(pattern % "gradient", results)
    extra = [f'%acc{i}: {kind} {{train.role = #train.role<accumulator "{name}">}}'
             for i, (kind, name) in enumerate(gradients)]  # fmt: skip
    signature = f"{arguments[:-1]}, {', '.join(extra)}) -> ({results}"
    body, last, after = re.split(r"(\n    return [^\n]*)", rest, maxsplit=1)
    values = re.match(r"\n    return ([^:]*) :", last)[1].split(", ")
    names = re.findall(r"train\.role<(\w+)", results)
    position = 0
    for i, role in enumerate(names):
        if role == "gradient":
            body += f"\n    %sum{position} = train.accumulate {values[i]} into %acc{position} : {gradients[position][0]}"
            values[i] = f"%sum{position}"
            position += 1
    last = f"\n    return {', '.join(values)} :{last.split(':', 1)[1]}"
    scalar = re.sub(r"^tensor<[^,]*", "tensor<f32", parameters["wte.weight"])
    rate = scalar.replace("f32", "f64")
    lines, takes, gives = [], [f"%t: {scalar} {{train.role = #train.role<step>}}"], []
    lines.append(f"    %lr = train.learning_rate(%t) {{base = 0.1 : f64, schedule = #train.schedule<constant>}} : ({scalar}) -> {rate}")
    for i, (kind, name) in enumerate(gradients):
        own = parameters[name]
        takes += [f'%p{i}: {own} {{train.role = #train.role<parameter "{name}">}}',
                  f'%g{i}: {kind} {{train.role = #train.role<gradient "{name}">}}']  # fmt: skip
        gives.append((f"%n{i}", f'{own} {{train.role = #train.role<parameter "{name}">}}', own))
        if kind != own:
            lines.append(f'    %s{i} = dist.all_reduce sum(%g{i}) over @mesh ["dp"] : {kind} -> {own}')
        gradient = f"%g{i}" if kind == own else f"%s{i}"
        lines.append(f"    %n{i} = train.sgd(%p{i}, {gradient}, %t, %lr) {{momentum = 0.0 : f64, dampening = 0.0 : f64, "
                     f"weight_decay = 0.0 : f64, nesterov = false}} : {own}, {scalar}, {rate}")  # fmt: skip
    update = "\n".join([
        f"  func.func @update({', '.join(takes)}) -> ({', '.join(g[1] for g in gives)})",
        "      attributes {train.phase = #train.phase<update>} {", *lines,
        f"    return {', '.join(g[0] for g in gives)} : {', '.join(g[2] for g in gives)}", "  }"])  # fmt: skip
    end = after.index("\n  }") + len("\n  }\n")
    return head + signature + body + last + after[:end] + update + "\n" + after[end:]


def write(build_dir, folder, layers=2, dp=1, tp=1, sharded=False, steps=2, microbatches=2):
    """Writes program.mlir, its weights beside it, and data.safetensors; the program's path."""
    path = folder / "program.mlir"
    opt = build_dir / "bin" / "cleave-opt"
    (folder / "forward.mlir").write_text(forward(layers, dp, tp, sharded))
    joint = subprocess.run(
        [opt, folder / "forward.mlir", "--check-spmd-types", "--autodiff", "--mlir-print-debuginfo"],
        capture_output=True, text=True)  # fmt: skip
    assert joint.returncode == 0, joint.stderr
    path.write_text(add_training(joint.stdout))
    generator = torch.Generator().manual_seed(0)
    weights = {}
    shapes = re.findall(r'tensor<([0-9x]+)xf32, [^>]*>> \{train\.role = #train\.role<parameter "([^"]+)"',
                        forward(layers, 1, 1, False))  # fmt: skip
    for shape, name in shapes:
        weights[name] = torch.randn([int(d) for d in shape.split("x")], generator=generator) * 0.2
    save_file(weights, path.with_suffix(".safetensors"))
    batch = 2 * dp * steps * microbatches
    tokens = torch.randint(VOCABULARY, (batch, LENGTH), generator=generator)
    targets = torch.randn(batch, LENGTH, VOCABULARY, generator=generator).softmax(-1)
    save_file({"tokens": tokens, "targets": targets}, folder / "data.safetensors")
    return path
