"""--autodiff of partitioned programs: every rule's gradients on two ranks are those of one device.

All ops with a derivative, exported as one forward-only program (`autodiff_cases`), whose parameters are sharded
wherever that is possible, are laid out, made local and then differentiated. Left out is only what docs/autodiff.md
lists as refused.
"""

import random
import re
import subprocess

import pytest
from test_autodiff import export_all_cases

PARAMETER = re.compile(
    r'^(\s*%\S+: tensor<((?:\d+x)*)f64> \{train\.role = #train\.role<parameter "([^"]*)">)(\}.*)$'
)
# The dimension to shard, of the even ones.
CHOICES = {
    "first": lambda dims, name: dims[0],
    "last": lambda dims, name: dims[-1],
    "mixed": lambda dims, name: random.Random(name).choice(dims),
}
REFUSAL = "no gradient flows through a pending reduction other than a sum; reduce V values instead"

# Parted first, these have no gradient, and say so; parted with their backward they have one.
FORMS_WITHOUT_GRADIENT = (
    r"'aten\.embedding' op has scale_grad_by_freq, which a table sharded by rows cannot keep"
    r"|'aten\._scaled_dot_product_flash_attention_for_cpu' op has no derivative of result #1"
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The program of all cases, its weights and its input."""
    return export_all_cases(tmp_path_factory.mktemp("placed_gradients"))


@pytest.fixture(scope="module")
def opt(build_dir):
    def run(*arguments):
        command = [build_dir / "bin" / "cleave-opt", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    return run


def place(text, choose):
    """A mesh of two ranks, and parameters sharded in a dimension that `choose` takes."""
    lines, sharded = [], 0
    for line in text.splitlines():
        if match := PARAMETER.match(line):
            sizes = [int(n) for n in match[2].split("x") if n]
            if dims := [d for d, n in enumerate(sizes) if n % 2 == 0]:
                sharded += 1
                dim = choose(dims, match[3])
                line = f"{match[1]}, dist.placement = #dist.on<@mesh, tp = S({dim})>{match[4]}"
        lines.append(line)
    assert sharded > 100
    text = "\n".join(lines) + "\n"
    return re.sub(r"^(module [^\n]*\{\n)", r'\1  dist.mesh @mesh ["tp" = 2]\n', text, flags=re.MULTILINE)


def without_pending_extrema(text):
    """The program with replicated operands and results where an op gives a result in P(max) or P(min)."""
    pending = "|".join(re.findall(r"^(#\w+) = .*P\((?:max|min)\)>", text, re.MULTILINE))
    if not pending:
        return text
    line = re.compile(rf"^.*dist\.results = \[[^\]]*(?:{pending})\b.*$", re.MULTILINE)
    return line.sub(lambda m: replicated(m[0]), text)


def replicated(line):
    return re.sub(r"#\w+(?=[,\]])", "#dist.on<@mesh, tp = R>", line)


def replicate_line(path, number):
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1] = replicated(lines[number - 1])
    path.write_text("".join(lines))


@pytest.mark.parametrize("dimension", CHOICES)
def test_gradients_on_two_ranks_are_those_of_one(dimension, exported, opt, cleave_run, tmp_path):
    placed, spread, joint, local = (
        tmp_path / f"{name}.mlir" for name in ("placed", "spread", "joint", "local")
    )
    placed.write_text(place(exported.read_text(), CHOICES[dimension]))
    assert opt(placed, "--propagate-placements", "-o", spread).returncode == 0
    assert opt(exported, "--autodiff", "-o", joint).returncode == 0
    # Each round replicates what one error names.
    for _ in range(9):
        done = opt(spread, "--partition", "--autodiff", "-o", local)
        if done.returncode == 0:
            break
        assert not local.exists()
        if REFUSAL in done.stderr:
            assert spread.read_text() != (differentiable := without_pending_extrema(spread.read_text()))
            spread.write_text(differentiable)
        else:
            assert re.search(FORMS_WITHOUT_GRADIENT, done.stderr), done.stderr
            replicate_line(spread, int(re.search(r"spread\.mlir:(\d+):", done.stderr)[1]))
    assert done.returncode == 0, done.stderr
    assert "dist.all_reduce" in local.read_text()
    printed = cleave_run.succeed(
        local, "--against", joint, "--inputs", exported.parent / "inputs.safetensors", "--weights",
        exported.with_suffix(".safetensors"), "--ranks", 2, "--ranks-as", "threads",
        "--tolerance", 1e-10,
    )  # fmt: skip
    assert len(re.findall(r"^grad\.", printed, re.MULTILINE)) > 100
