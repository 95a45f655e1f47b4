"""Runs an exported program's text op by op with PyTorch, from its syntax alone.

A second reader of `docs/ir.md` and `docs/random.md`, in Python: the exporter's tests hold its
results against eager mode without any of Cleave's C++.
"""

import json
import pathlib
import re
import struct

import torch

_DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i8": torch.int8, "ui8": torch.uint8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "i1": torch.bool, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128,
}  # fmt: skip
_TABLE = pathlib.Path(__file__).parents[2] / "python/cleave/typed_ops.json"
_OP = re.compile(
    r"\s*(?P<results>%.*?) = (?P<op>[\w.]+)(?: \"(?P<callee>[^\"]+)\")?(?P<rest>[( ].*)$"
)


def split(text):
    """Splits at commas outside of brackets and strings."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{<":
            depth += 1
        elif not quoted and c in ")]}>" and text[i - 1] != "-":
            depth -= 1
        elif not quoted and c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return parts + [text[start:].strip()] if text.strip() else parts


def bracketed(text, start):
    """The text in the brackets that open at `start`, and the index after them."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : i], i + 1
    raise AssertionError(f"unbalanced: {text[start:]}")


def parse_type(text):
    """(shape, dtype) of `tensor<2x3xf32>`."""
    shape, dtype = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", text).groups()
    return [int(size) for size in shape.split("x")[:-1]], _DTYPES[dtype]


class Function:
    """arguments: (SSA name, type, role); results: (type, role); the lines of the body."""

    def __init__(self, lines):
        header, body = [], []
        for line in lines:
            (body if header and header[-1].endswith("{") else header).append(line.strip())
        self.body = body
        entry = re.compile(r"(?:(%\S+): )?(tensor<\S*>) \{train\.role = (#train\.role<.*>)\}[,)]")
        self.arguments, self.results = [], []
        for line in header:
            if match := entry.fullmatch(line.removeprefix("-> (")):
                name, type_, role = match.groups()
                if name:
                    self.arguments.append((name, type_, role))
                else:
                    self.results.append((type_, role))
        self.attributes = header[-1]

    def roles(self, kind):
        """The roles of a kind on arguments, in order."""
        return [role for _, _, role in self.arguments if role.startswith(f"#train.role<{kind}")]


def parse(text):
    """Functions by name."""
    functions, lines = {}, None
    for line in text.splitlines():
        if match := re.match(r"  func\.func @(\w+)\(", line):
            name, lines = match.group(1), []
        elif lines is not None and line == "  }":
            functions[name] = Function(lines)
            lines = None
        elif lines is not None:
            lines.append(line)
    return functions


def role_name(role):
    """The name of a role in files: "grad.w", "buffer.b", "loss", "optim.w.exp_avg", ..."""
    kind, name, slot = re.fullmatch(
        r'#train\.role<(\w+)(?: "([^"]*)")?(?: slot "([^"]*)")?.*>', role
    ).groups()
    prefix = {
        "parameter": "param.", "buffer": "buffer.", "output": "output.", "gradient": "grad.",
        "accumulator": "grad.", "optimizer_state": "optim.",
    }.get(kind, "")  # fmt: skip
    return (prefix + name if name is not None else kind) + (f".{slot}" if slot else "")


def seek(seed, draws):
    """Places PyTorch's generator after `draws` draws of 32 bits from `seed`."""
    torch.manual_seed(seed)
    torch.empty(draws, dtype=torch.int32).random_()


class Interpreter:
    def __init__(self, text):
        self.functions = parse(text)
        self._mnemonics = (
            {v: k for k, v in json.loads(_TABLE.read_text()).items()} if _TABLE.exists() else {}
        )

    def run(self, function, values):
        """Runs a function on argument values by role name; the results by role name."""
        function = self.functions[function]
        env = {}
        for name, type_, role in function.arguments:
            value = values[role_name(role)]
            if value is not None:  # an empty accumulator
                assert [list(value.shape), value.dtype] == list(parse_type(type_)), role
            env[name] = value
        with torch.no_grad():
            for line in function.body:
                if line.startswith("return "):
                    operands = [
                        v.strip() for v in line[len("return ") : line.index(" : ")].split(",")
                    ]
                    results = [self._operand(v, env) for v in operands]
                    names = [role_name(role) for _, role in function.results]
                    return dict(zip(names, results, strict=True))
                self._execute(line, env)
        raise AssertionError("no return")

    @staticmethod
    def _operand(text, env):
        name, _, index = text.partition("#")
        return env[name][int(index)] if index else env[name]

    def _execute(self, line, env):
        match = _OP.fullmatch(line)
        op, rest = match["op"], match["rest"]
        if op == "train.accumulate":
            gradient, accumulator = re.match(r" (%\S+) into (%\S+) :", rest).groups()
            gradient, accumulator = self._operand(gradient, env), env[accumulator]
            env[match["results"]] = gradient if accumulator is None else accumulator + gradient
            return
        inside, end = bracketed(rest, 0)
        attributes = {}
        if rest[end:].startswith(" {"):
            text, end = bracketed(rest, end + 1)
            attributes = dict(part.split(" = ", 1) for part in split(text) if " = " in part)
        if op.startswith("train."):
            results = _train(op, [env[v] for v in split(inside)], attributes)
        else:
            results = self._aten(op, match["callee"], split(inside), env)
            results = self._check_types(line, results)
        if isinstance(results, (tuple, list)) and ":" not in match["results"]:
            for name, result in zip(split(match["results"]), results, strict=True):
                env[name] = result
        else:
            env[match["results"].split(":")[0]] = results

    @staticmethod
    def _check_types(line, results):
        text = line[line.rindex(" -> ") + 4 :]
        text = text[: text.rindex(" loc(")].strip("()")
        several = isinstance(results, (tuple, list))
        values = list(results) if several else [results]
        for type_, value in zip(split(text), values, strict=True):
            found = "none" if value is None else (list(value.shape), value.dtype)
            expected = "none" if type_ == "none" else parse_type(type_)
            assert found == expected, f"{line}: found {found}"
        return values if len(values) > 1 else values[0]

    def _aten(self, op, callee, arguments, env):
        op = op.removeprefix("aten.")
        if op.startswith("rng_"):
            return self._random(op, arguments, env)
        overload = _overload(callee or self._mnemonics[op])
        kwargs = {}
        tensors = [a for a in overload._schema.arguments if "Tensor" in str(a.type)]
        types = {a.name: str(a.real_type) for a in overload._schema.arguments}
        position = 0
        for text in arguments:
            if named := re.match(r"(\w+) = (.*)", text):
                name, text = named.groups()
            else:
                name = tensors[position].name
                position += 1
            kwargs[name] = self._value(text, types[name], env)
        assert callee or position == len(tensors), f"{op} has {position} of {len(tensors)} tensors"
        positional = []
        for a in overload._schema.arguments:
            optional = types[a.name].startswith("Optional") and not a.has_default_value()
            if a.kwarg_only or (a.name not in kwargs and not optional):
                break
            positional.append(kwargs.pop(a.name, None))
        return self.call(overload, positional, kwargs)

    @staticmethod
    def call(overload, args, kwargs):
        """Runs an operator; for who wants to see all."""
        if overload.name().startswith("aten::as_strided"):
            args[0] = args[0].contiguous()  # in programs it counts elements in row-major order
        return overload(*args, **kwargs)

    def _random(self, op, arguments, env):
        tensors = [
            env_value
            for a in arguments
            if a.startswith("%")
            for env_value in [self._operand(a, env)]
        ]
        like, seed, offset = tensors
        named = dict(a.split(" = ") for a in arguments if not a.startswith("%"))
        assert named["generator"] == "#aten.generator<mt19937>"
        seek(int(seed), int(offset) + int(named["position"]))
        if op == "rng_native_dropout":
            p = float(named["p"])
            mask = torch.empty_like(like, dtype=torch.bool).bernoulli_(1 - p)
            scale = torch.ones((), dtype=like.dtype).div_(1 - p).item()
            return like.mul(mask).mul_(scale), mask
        result = torch.empty_like(like)
        if op == "rng_uniform":
            return result.uniform_(float(named["from"]), float(named["to"]))
        if op == "rng_normal":
            return result.normal_(float(named["mean"]), float(named["std"]))
        if op == "rng_exponential":
            return result.exponential_(float(named["lambd"]))
        if op == "rng_randint":
            return result.random_(int(named["low"]), int(named["high"]))
        if op == "rng_randperm":
            return torch.randperm(len(like), dtype=like.dtype)
        if op == "rng_multinomial":
            return torch.multinomial(like, int(named["num_samples"]), named["replacement"] == "true")
        assert op == "rng_bernoulli"
        return torch.bernoulli(like, float(named["p"])) if "p" in named else result.bernoulli_(like)

    def _value(self, text, type_, env):
        if text == "none":
            return None
        if text.startswith("%"):
            return self._operand(text, env)
        if text.startswith("["):
            return [self._value(item, type_, env) for item in split(text[1:-1])]
        if "ScalarType" in type_:
            return _DTYPES[text]
        if text.startswith('"'):
            value = json.loads(text)
            return getattr(torch, value) if "MemoryFormat" in type_ else value
        return number(text)


def number(text):
    text = text.removesuffix(" : f64")
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("#aten.complex<"):
        return complex(*map(number, text.removeprefix("#aten.complex<").removesuffix(">").split(", ")))
    if text.startswith("0x"):
        return struct.unpack(">d", bytes.fromhex(text[2:]))[0]
    return float(text) if re.search(r"[.e]", text) else int(text)


def _overload(name):
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _train(op, operands, attributes):
    numbers = {k: number(v) for k, v in attributes.items() if not v.startswith("#")}
    if op == "train.learning_rate":
        assert attributes["schedule"] == "#train.schedule<constant>"
        return torch.tensor(numbers["base"], dtype=torch.float64)
    *tensors, step, lr = [t.clone() for t in operands]
    first = step == 1
    if op == "train.adamw":
        torch._fused_adamw_(
            *[[t] for t in tensors], [], [step], lr=lr.item(), beta1=numbers["beta1"],
            beta2=numbers["beta2"], weight_decay=numbers["weight_decay"], eps=numbers["eps"],
            amsgrad=False, maximize=False,
        )  # fmt: skip
        return tensors[0], tensors[2], tensors[3]
    assert op == "train.sgd"
    torch._fused_sgd_(
        [tensors[0]], [tensors[1]], [tensors[2]] if len(tensors) > 2 else [],
        weight_decay=numbers["weight_decay"], momentum=numbers["momentum"], lr=lr.item(),
        dampening=numbers["dampening"], nesterov=numbers["nesterov"], maximize=False,
        is_first_step=bool(first),
    )  # fmt: skip
    return (tensors[0], tensors[2]) if len(tensors) > 2 else tensors[0]
