"""--autodiff: gradients of models and of single ops against PyTorch's."""

import dataclasses
import json
import os
import re
import subprocess

import autodiff_cases
import cleave
import cleave_run  # noqa: F401
import pytest
import torch
from cleave import testing
from cleave.export.capture import capture
from cleave.export.program import Program
from combinations_cover import part_of_today
from exported_models import ALL_MODELS, MODELS, make_once
from safetensors.torch import load_file, save_file

# bfloat16 as on every other machine, also where AMX is announced and refused.
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", ONEDNN_MAX_CPU_ISA="AVX512_CORE_FP16")


def cleave_opt(build_dir, *arguments):
    return subprocess.run([build_dir / "bin" / "cleave-opt", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120)  # fmt: skip


def differentiate(build_dir, program, *arguments):
    """Runs the pass on a file; the path of the result."""
    out = program.with_suffix(".joint.mlir")
    result = cleave_opt(build_dir, program, *(arguments or ["--autodiff"]), "-o", out)
    assert result.returncode == 0, result.stderr
    return out


def write(program, path):
    path.write_text(program.text)
    save_file({n: t.contiguous().clone() for n, t in program.tensors.items()},
              path.with_suffix(".safetensors"))  # fmt: skip
    return path


@pytest.mark.parametrize("name", part_of_today(sorted(ALL_MODELS), 3))
def test_gradients_are_those_of_the_joint_graph(name, build_dir, cleave_run, tmp_path):
    """Bit for bit, from the forward half of the very trace whose joint graph it is compared with."""
    spec = ALL_MODELS[name]()
    traced = capture(spec)
    joint = write(Program(spec, traced), tmp_path / "torch.mlir")
    half = Program(dataclasses.replace(spec, gradients=False), traced)
    forward = write(half, tmp_path / "forward.mlir")
    assert "train.backward" not in half.text and "accumulator" not in half.text
    inputs = tmp_path / "inputs.safetensors"
    save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
    ours = differentiate(build_dir, forward)
    result = subprocess.run(
        [cleave_run.path, ours, "--against", joint, "--inputs", inputs, "--seed", "7",
         "--weights", joint.with_suffix(".safetensors")],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    found, total = re.search(r"(\d+) of (\d+) values are bitwise equal", result.stdout).groups()
    assert found == total == str(joint.read_text().count("#train.role<gradient") // 2 + sum(
        joint.read_text().split("func.func")[1].split("attributes {")[0].split("-> (")[1].count(f"#train.role<{kind}")
        for kind in ("loss", "buffer")))  # fmt: skip


def test_a_forward_that_is_to_be_trained_says_what_it_lacks(cleave_run, tmp_path):
    spec = dataclasses.replace(MODELS["gpt_tied"](), gradients=False)
    message = cleave_run.fail(cleave.export_spec(spec, tmp_path), "--dry-run")
    assert "no gradients at all; cleave-opt --autodiff adds them" in message
    assert len(message.splitlines()) < 10


def test_checkpoint_tags_and_stages_are_kept(build_dir, tmp_path):
    spec = dataclasses.replace(MODELS["gpt_checkpointed"](), gradients=False)
    program = cleave.export_spec(spec, tmp_path)
    tags = program.read_text().count("#train.checkpoint<")
    text = differentiate(build_dir, program).read_text()
    assert tags and text.count("#train.checkpoint<") == tags


class Cut(torch.nn.Module):
    """Divides by a norm that takes no part in the gradient."""

    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(8, 8)
        self.unused = torch.nn.Linear(8, 8)

    def forward(self, x):
        with torch.no_grad():
            norm = self.l.weight.norm(dim=1) + self.unused.weight.norm(dim=1)
        return (self.l(x) / norm).tanh()


def test_what_eager_mode_cuts_off_stays_so(build_dir, cleave_run, tmp_path):
    torch.manual_seed(5)
    x = torch.randn(4, 8)
    spec = cleave.ExportSpec(Cut(), (x,), loss=lambda y: y.mean(), gradients=False)
    ours = differentiate(build_dir, cleave.export_spec(spec, tmp_path))
    weights = ["--weights", tmp_path / "cut.safetensors"]
    found = cleave_run.evaluate(ours, {"x": x}, tmp_path, *weights)
    expected = testing.evaluate(spec)
    assert sorted(found) == sorted(expected) == ["grad.l.bias", "grad.l.weight", "loss"]
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


# Single ops ------------------------------------------------------------------------------------


class AllCases(torch.nn.Module):
    """Every case on its own parameters; the loss weighs all results with fixed random numbers."""

    def __init__(self, cases):
        super().__init__()
        generator = torch.Generator().manual_seed(20260101)
        self.cases = cases
        for name, case in cases.items():
            for i, shape in enumerate(case.shapes):
                value = torch.randn(shape, generator=generator, dtype=torch.float64)
                if case.positive:
                    value = value.abs() + 0.5
                self.register_parameter(key(name, i), torch.nn.Parameter(value))
        self.weights = {}
        for name, case in cases.items():
            shape = case.function(*self.operands(name)).shape
            self.weights[name] = torch.randn(shape, generator=generator, dtype=torch.float64)

    def operands(self, name):
        return [getattr(self, key(name, i)) for i in range(len(self.cases[name].shapes))]

    def loss_of(self, name, operands):
        return (self.cases[name].function(*operands) * self.weights[name]).sum()

    def forward(self, zero):
        for name in self.cases:
            zero = zero + self.loss_of(name, self.operands(name))
        return zero


def key(name, i):
    return f"{name.replace('.', '_')}_{i}"


def export_all_cases(folder):
    """The path of the program of all cases, beside its weights and its input."""

    def export(out):
        zero = torch.zeros((), dtype=torch.float64)
        cleave.export_spec(cleave.ExportSpec(
            AllCases(autodiff_cases.CASES), (zero,), mode="joint", gradients=False, name="cases", batch_dims={"zero": None},
        ), out)  # fmt: skip
        save_file({"zero": zero}, out / "inputs.safetensors")

    make_once("autodiff_cases", export, folder)
    return folder / "cases.mlir"


@pytest.fixture(scope="module")
def cases(build_dir, tmp_path_factory):
    """All cases exported as one program and differentiated: the module, the dump, the forward's text."""
    folder = tmp_path_factory.mktemp("cases")
    module, program = AllCases(autodiff_cases.CASES), export_all_cases(folder)
    ours = differentiate(build_dir, program)
    subprocess.run(
        [build_dir / "bin" / "cleave-run", ours, "--inputs", folder / "inputs.safetensors",
         "--weights", program.with_suffix(".safetensors"), "--dump", folder / "dump.safetensors"],
        check=True, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)  # fmt: skip
    return module, load_file(folder / "dump.safetensors"), program.read_text()


@pytest.mark.parametrize("name", sorted(autodiff_cases.CASES))
def test_each_rule_against_autograd(name, cases):
    module, dump, _ = cases
    operands = [o.detach().clone().requires_grad_() for o in module.operands(name)]
    expected = torch.autograd.grad(module.loss_of(name, operands), operands, allow_unused=True)
    for i, gradient in enumerate(expected):
        ours = dump.get(f"grad.{key(name, i)}")
        if gradient is None or ours is None:  # what PyTorch does not reach is 0 where we say so
            assert gradient is None or not gradient.any()
            assert ours is None or not ours.any()
            continue
        torch.testing.assert_close(ours, gradient, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", sorted(n for n, c in autodiff_cases.CASES.items() if c.smooth))
def test_each_rule_against_finite_differences(name, cases):
    module, dump, _ = cases
    operands = [o.detach() for o in module.operands(name)]
    generator = torch.Generator().manual_seed(1)
    step = [torch.randn(o.shape, generator=generator, dtype=torch.float64) for o in operands]
    h = 1e-6
    high, low = (module.loss_of(name, [o + s * h * d for o, d in zip(operands, step)])
                 for s in (1, -1))  # fmt: skip
    slope = ((high - low) / (2 * h)).item()
    ours = sum((dump[f"grad.{key(name, i)}"] * d).sum().item() for i, d in enumerate(step)
               if f"grad.{key(name, i)}" in dump)  # fmt: skip
    assert ours == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_every_claimed_derivative_has_a_case(cases, source_dir, build_dir):
    """What dialects/aten/Derivatives.cpp claims stands in the program of the cases."""
    claims = re.findall(r"\b(\w+)Op\b[,>]", (source_dir / "dialects/aten/Derivatives.cpp").read_text())
    dump = json.loads((build_dir / "dialects/aten/AtenRecords.json").read_text())
    records = {
        name.removeprefix("Aten_").removesuffix("Op"): record["opName"]
        for name, record in dump.items() if isinstance(record, dict) and "opName" in record
    }  # fmt: skip
    _, _, text = cases
    used = set(re.findall(r"aten\.(\w+)", text))
    # Random numbers are drawn, not differentiated; dropout is in the models' test.
    # Calls of operators without a typed op are claimed so that they are refused by name.
    missing = {c for c in claims if records[c] not in used and not c.startswith("Rng")} - {"Call"}
    assert len(claims) > 100 and not missing
