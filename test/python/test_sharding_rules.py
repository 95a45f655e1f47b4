"""Every sharding rule's claims hold of the operator: parts of the operands give parts of the results.

The ops are those of the round-trip tests of the aten dialect (every typed op has one), a few more that
their rules tell apart, and random ones.
"""

import copy
import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import combinations_cover
import pytest
import torch

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "test/dialects/aten/Inputs"), str(SOURCE / "dialects/aten")]
import records  # noqa: E402
import sharding_claims as claims  # noqa: E402
from aten_calls import read_call  # noqa: E402

# What they give is no tensor: a number, the same on all ranks.
WITHOUT_TENSOR = {"item"}
# Ops of which no element could be computed by itself.
NOTHING_CLAIMED = {"arange", "arange_start", "arange_start_step", "scalar_tensor"}
# Draws by position: their rules tell shapes, and nothing that could be run.
RANDOM = {
    "rng_bernoulli", "rng_normal", "rng_uniform", "rng_exponential", "rng_randint", "rng_randperm", "rng_multinomial",
}  # fmt: skip


@pytest.fixture(scope="module")
def ops(build_dir):
    path = build_dir / "dialects" / "aten" / "AtenRecords.json"
    return {op.mnemonic: op for op in records.read(path)}


@pytest.fixture(scope="module")
def rules_of(build_dir, tmp_path_factory):
    """The rules of calls, one tool run for all."""

    def rules(statements: list[str]) -> list[dict]:
        directory = tmp_path_factory.mktemp("rules")
        program, out = directory / "calls.mlir", directory / "rules.json"
        lines = [s.replace("@FUNCTION", f"@f{i}") for i, s in enumerate(statements)]
        program.write_text("\n".join(lines) + "\n")
        command = [build_dir / "bin/cleave-opt", program, f"--print-sharding-rules=json={out}", "-o", "/dev/null"]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        found = json.loads(out.read_text())
        assert [f["line"] for f in found] == list(range(1, len(statements) + 1))
        return [f["rule"] for f in found]

    return rules


@pytest.fixture(scope="module")
def tested(ops, rules_of):
    """(where, call, rule) of every call in the dialect's tests and in test/dialects/sharding."""
    calls = []
    for path in sorted((SOURCE / "test/dialects").glob("[as]*/*.mlir")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not path.stem.endswith("invalid") and "aten.call" not in line:
                call = read_call(line, ops)
                if call and call.op.mnemonic not in WITHOUT_TENSOR:
                    calls.append((f"{path.name}:{number}", call))
    rules = rules_of([call.statement() for _, call in calls])
    return [(where, call, rule) for (where, call), rule in zip(calls, rules)]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def check_all(tested, seed) -> dict[str, int]:
    """How many claims were tried, by op; all that are broken are reported."""
    tried, broken = {}, []
    for where, call, rule in tested:
        mnemonic = call.op.mnemonic
        try:
            tried[mnemonic] = tried.get(mnemonic, 0) + claims.check_call(call, rule, seed)
        except claims.Broken as error:
            broken.append(f"{where}: aten.{mnemonic} {call.operand_types} {call.attributes}: {error}")
    assert not broken, f"seed {seed}\n" + "\n".join(broken)
    return tried


def test_every_op_has_a_rule(ops, tested):
    assert {call.op.mnemonic for _, call, _ in tested} == set(ops) - {"call"} - WITHOUT_TENSOR
    opaque = {call.op.mnemonic for _, call, rule in tested if rule["opaque"] is not None}
    assert not opaque, f"opaque: {opaque}"


def test_claims_hold(ops, tested):
    tried = check_all(tested, combinations_cover.seed())
    print(sum(tried.values()), "claims")
    untried = {mnemonic for mnemonic, count in tried.items() if count == 0}
    assert untried == NOTHING_CLAIMED | RANDOM | claims.UNINITIALIZED


def test_random_calls(ops, rules_of):
    seed = combinations_cover.seed()
    lines = claims.random_statements(random.Random(seed), 300)
    calls = [read_call(line, ops) for line in lines]
    rules = rules_of([call.statement() for call in calls])
    tried = check_all([(line, call, rule) for line, call, rule in zip(lines, calls, rules)], seed)
    assert all(tried.get(op) for op in ("view", "index", "index_put", "sum_dim_int_list", "mul"))


def test_parts_have_the_same_rule(ops, tested, rules_of):
    """A rule holds of local shapes too: an op on parts says of their dimensions what the whole op says."""
    seed = combinations_cover.seed()
    lines = claims.random_statements(random.Random(seed), 300)
    calls = [read_call(line, ops) for line in lines]
    rules = rules_of([call.statement() for call in calls])
    whole = tested + [(line, call, rule) for line, call, rule in zip(lines, calls, rules)]
    local = [
        (where, call, rule, factor, statement)
        for where, call, rule in whole
        for factor, statement in claims.local_statements(call, rule)
    ]
    assert len(local) > 500
    broken = []
    for (where, call, rule, factor, text), of_part in zip(local, rules_of([entry[-1] for entry in local])):
        try:
            claims.check_local_rule(rule, factor, of_part)
        except claims.Broken as error:
            broken.append(f"{where}: aten.{call.op.mnemonic} {call.operand_types}: {error}: {text}")
    assert not broken, f"seed {seed}\n" + "\n".join(broken)


TRAIN = {
    "accumulate": "train.accumulate %a0 into %a1 : tensor<4x6xf32>",
    "adamw": "train.adamw(%a0, %a1, %a2, %a3, %a4, %a5) {beta1 = 0.9 : f64, beta2 = 0.999 : f64, "
    "eps = 1.0e-08 : f64, weight_decay = 0.01 : f64} : tensor<4x6xf32>",
    "sgd": "train.sgd(%a0, %a1, %a2, %a3, %a4) {momentum = 0.9 : f64, dampening = 0.0 : f64, "
    "nesterov = false, weight_decay = 0.1 : f64} : tensor<4x6xf32>",
}


class TrainCall:
    """What the runtime executes for an op of the train dialect, on random operands."""

    def __init__(self, name: str):
        self.name = name
        self.op = SimpleNamespace(mnemonic=name)
        self.tensors = {"accumulate": 2, "adamw": 4, "sgd": 3}[name]
        self.scalars = 0 if name == "accumulate" else 2

    def statement(self) -> str:
        types = ["tensor<4x6xf32>"] * self.tensors + ["tensor<f32>", "tensor<f64>"][: self.scalars]
        arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
        count = {"accumulate": "", "adamw": ":3", "sgd": ":2"}[self.name]
        return f"func.func @FUNCTION({arguments}) {{ %0{count} = {TRAIN[self.name]} return }}"

    def operands(self, generator) -> list:
        large = [torch.rand(4, 6, generator=generator) for _ in range(self.tensors)]
        return large + [torch.tensor(3.0), torch.tensor(0.1, dtype=torch.float64)][: self.scalars]

    def run(self, operands: list) -> list:
        if self.name == "accumulate":
            return [operands[0] + operands[1]]
        *large, step, rate = (o.clone() for o in operands)
        lists = [[t] for t in large]
        if self.name == "adamw":
            torch._fused_adamw_(
                *lists, [], [step], lr=rate.item(), beta1=0.9, beta2=0.999, weight_decay=0.01,
                eps=1e-8, amsgrad=False, maximize=False,
            )  # fmt: skip
            return [large[0], large[2], large[3]]
        torch._fused_sgd_(
            *lists, weight_decay=0.1, momentum=0.9, lr=rate.item(), dampening=0.0, nesterov=False,
            maximize=False, is_first_step=False,
        )  # fmt: skip
        return [large[0], large[2]]


@pytest.mark.parametrize("name", TRAIN)
def test_train_ops(rules_of, monkeypatch, name):
    monkeypatch.setattr(claims, "make_operands", lambda call, generator: call.operands(generator))
    call = TrainCall(name)
    [rule] = rules_of([call.statement()])
    assert claims.check_call(call, rule, combinations_cover.seed()) >= 4


def plant(rule: dict):
    """Wrong rules, each by one mistake, with what it is."""
    for i, factor in enumerate(rule["factors"]):

        def changed(**values):
            wrong = copy.deepcopy(rule)
            wrong["factors"][i].update(values)
            return wrong

        held = [claims.has(dims, i) for dims in rule["results"]]
        if factor["whole"] is not None or factor["size"] < 2:
            continue
        if not all(held) and factor["reduction"] == "sum":
            yield f"{factor['name']} reduced by max", changed(reduction="max")
            yield f"{factor['name']} does not matter", changed(reduction="none")
        if factor["addends"]:
            yield f"{factor['name']} without addends", changed(addends=[])


@pytest.mark.parametrize(
    "line, mistake",
    [
        ("%0 = aten.exp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "linear"),
        ("%0 = aten.mul(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>", "linear together"),
        ("%0 = aten.neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "moves"),
        ("%0 = aten._softmax(%x, dim = -1, half_to_float = false) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "kept"),
        ("%0 = aten.cumsum(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "kept"),
        ("%0 = aten.relu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "shape only"),
        ("%0 = aten.view(%x, size = [8, 4]) : (tensor<4x8xf32>) -> tensor<8x4xf32>", "sizes stay"),
        ("%0 = aten.mm(%x, %y) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>", "planted"),
        (
            "%0 = aten.addmm(%b, %x, %y) : (tensor<6xf32>, tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>",
            "planted",
        ),
        ("%0 = aten.mean(%x) : (tensor<4x8xf32>) -> tensor<f32>", "sum"),
    ],
)
def test_mistakes_are_found(ops, rules_of, line, mistake):
    call = read_call(line, ops)
    [rule] = rules_of([call.statement()])
    assert claims.check_call(call, rule, 1) or mistake in ("linear", "kept")
    wrong = copy.deepcopy(rule)
    match mistake:
        case "linear":
            wrong["linear"] = [{"operands": [0], "results": [0], "moves": False}]
        case "linear together":
            wrong["linear"] = [{"operands": [0, 1], "results": [0], "moves": False}]
        case "moves":
            wrong["linear"] = [{"operands": [0], "results": [0], "moves": True}]
        case "kept":
            for factor in wrong["factors"]:
                factor["whole"] = None
        case "shape only":
            wrong["shape_only"] = [0]
        case "sizes stay":
            wrong["size_attributes"] = []
        case "sum":
            wrong["factors"][0]["reduction"] = "sum"
        case "planted":
            mistakes = list(plant(rule))
            assert len(mistakes) >= 2
            for what, planted in mistakes:
                with pytest.raises(claims.Broken):
                    claims.check_call(call, planted, 1)
                    pytest.fail(f"the check misses: {what}")
            return
    with pytest.raises((claims.Broken, RuntimeError)):
        claims.check_call(call, wrong, 1)
