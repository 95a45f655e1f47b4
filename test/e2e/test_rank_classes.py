"""Functions for classes of ranks are one program, in cleave-opt as in cleave-run.

Exported models that 3 ranks do not divide evenly are accepted in every form, and refused once one class's function
is changed. Every way to differ, in small: test/passes/placement/check-rank-classes-invalid.mlir.
"""

import re
import subprocess

import pytest
from cleave import ColwiseParallel, Plan, RowwiseParallel
from combinations_cover import covered

PLANS = {
    "tp": Plan({"tp": 3}, {"h.*.mlp.c_fc": ColwiseParallel(), "h.*.mlp.c_proj": RowwiseParallel()}),
}
FORMS = {
    "partitioned": [],
    "folded": ["--canonicalize", "--cse"],
    "fused": ["--fuse-kernels"],
    "lowered": ["--simplify-communication", "--fuse-kernels", "--lower-to-exec"],
}


@pytest.fixture(scope="module")
def local(model, build_dir, tmp_path_factory):
    """An exported model, laid out over 3 ranks by a plan."""
    cache = {}

    def get(plan):
        if plan not in cache:
            folder = tmp_path_factory.mktemp(plan)
            PLANS[plan].write(folder / "plan.json")
            out = folder / "local.mlir"
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", model("gpt_untied").program,
                 f"--annotate-placements=plan={folder}/plan.json uneven=true",
                 "--propagate-placements=uneven=true", "--partition=uneven=true", "-o", out],
                check=True, timeout=120,
            )  # fmt: skip
            assert "train.ranks" in out.read_text()
            cache[plan] = out
        return cache[plan]

    return get


@covered({"plan": list(PLANS), "form": list(FORMS)}, strength=1)
def test_what_partition_makes_is_accepted(plan, form, local, build_dir, cleave_run, tmp_path):
    out = tmp_path / "form.mlir"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", local(plan), *FORMS[form], "--check-spmd-types", "-o", out],
        check=True, timeout=120,
    )  # fmt: skip
    cleave_run.succeed(out, "--ranks", 3, "--dry-run")


def in_last_class(text, change):
    """The program with `change` made to the microbatch of the last class of ranks."""
    start = text.rindex("  func.func @microbatch_")
    end = text.index("\n  }\n", start)
    changed = change(text[start:end])
    assert changed != text[start:end]
    return text[:start] + changed + text[end:]


def replacing(pattern, replacement):
    return lambda function: re.sub(pattern, replacement, function, count=1)


def without_gelu(function):
    line, result, operand = re.search(r"\n +(%\w+) = aten\.gelu\((%\w+)\)[^\n]*", function).group(0, 1, 2)
    return re.sub(rf"{result}\b", operand, function.replace(line, "", 1))


CHANGES = {
    "another op": (replacing(r"aten\.gelu\(", "aten.silu("), "'aten.silu' op is where other ranks run 'aten.gelu'"),
    "a property more": (
        replacing(r"aten\.gelu\((%\w+)\)", r'aten.gelu(\1, approximate = "tanh")'),
        """'aten.gelu' op has approximate = "tanh", which it does not have on other ranks""",
    ),
    "a property less": (
        replacing(r"(scaled_dot_product\w+\([^\n]*), is_causal = true", r"\1"),
        "op lacks is_causal, which is true on other ranks",
    ),
    "another number": (
        replacing(r"(native_layer_norm\(.*), eps = [^,)]*", r"\1, eps = 0.5"),
        "'aten.native_layer_norm' op has eps = 5.000000e-01 : f64, but",
    ),
    "operands exchanged": (
        replacing(r"flash_attention_for_cpu\((%\w+), (%\w+)", r"flash_attention_for_cpu(\2, \1"),
        "'aten.view' op uses result 1 of 'aten.split', but result 0 on other ranks",
    ),
    "an op more": (
        replacing(r"(\n +)(%\w+)( = aten\.gelu\()(%\w+)([^\n]*)", r"\1%more\3\4\5\1\2\3%more\5"),
        "'aten.gelu' op is where other ranks run",
    ),
    "an op less": (without_gelu, "is where other ranks run 'aten.gelu'"),
    "another place of a sum": (
        lambda function: re.sub(r"(\n +)(%\w+)( = dist\.all_reduce sum\(%\w+\)[^\n]*-> tensor<64x32xf32, )#R_tp>",
                                r"\1%reduced\3#I_tp>\1\2 = dist.convert %reduced : tensor<64x32xf32, #I_tp> -> "
                                r"tensor<64x32xf32, #R_tp>", function, count=1),
        "'dist.convert' op is where other ranks run 'dist.all_reduce'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_class_that_was_changed_is_refused(change, local, build_dir, cleave_run, tmp_path):
    make, expected = CHANGES[change]
    file = tmp_path / "changed.mlir"
    file.write_text(in_last_class(local("tp").read_text(), make))
    done = subprocess.run(
        [build_dir / "bin" / "cleave-opt", file, "--check-spmd-types", "-o", "/dev/null"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and expected in done.stderr, done.stderr[:1000]
    assert expected in cleave_run.fail(file, "--ranks", 3, "--dry-run")


def test_what_cleave_opt_refuses_cleave_run_refuses(source_dir, cleave_run, tmp_path):
    invalid = source_dir / "test/passes/placement/check-rank-classes-invalid.mlir"
    programs = invalid.read_text().split("// -----")
    assert len(programs) >= 7
    for number, text in enumerate(programs):
        file = tmp_path / f"{number}.mlir"
        file.write_text(text)
        printed = cleave_run.fail(file, "--ranks", 2, "--steps", 1)
        for expected in re.findall(r"expected-error.*?\{\{(.*?)\}\}\n", text):
            assert expected in printed, printed[:1000]
