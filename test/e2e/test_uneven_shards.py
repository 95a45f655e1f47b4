"""Dimensions that do not divide evenly: each class of ranks has functions of its own.

Three examples over two data-parallel ranks, five hidden features over two tensor-parallel ones: four
classes, made from the even program of `test_collectives_signature` with their own sizes.
"""

import re
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from cleave import ColwiseParallel, Plan, RowwiseParallel
from test_collectives_signature import PARTS, expect_same_results, one_device, write_files
from training import ENVIRONMENT, checkpoint_group, losses, random_batches, save_batches, train

BATCH, HIDDEN = 3, 5
# What stands for the batch (b) and the hidden dimension (h) in each type's local shape.
SHAPES = {
    "X": "bx4", "XT": "4xb", "W": "4xh", "WG": "4xh", "V": "hx2", "VT": "2xh", "VG": "hx2",
    "H": "bxh", "HT": "hxb", "YP": "bx2", "Y": "bx2", "D": "3x2",
}  # fmt: skip


def functions(dp, tp):
    """The functions of one class of ranks, with unaliased types of their local shapes."""
    sizes = {"b": (2, 1)[dp], "h": (3, 2)[tp]}
    text = PARTS[PARTS.index("  func.func @microbatch") : PARTS.rindex("}")]
    for name, encoding in re.findall(r"^!(\w+) = tensor<[^#]*(?:f32, )(#.*)>$", PARTS, re.MULTILINE):
        shape = re.sub("[bh]", lambda m: str(sizes[m[0]]), SHAPES.get(name, ""))
        tensor = f"tensor<{shape}{'x' if shape else ''}f32, {encoding}>"
        text = re.sub(rf"!{name}\b", tensor, text)
    ranks = f"train.ranks = {{dp = array<i64: {dp}>, tp = array<i64: {tp}>}}"
    text = text.replace("size = [4, 2]", f"size = [{BATCH}, 2]")
    text = re.sub(r"attributes \{", f"attributes {{{ranks}, ", text)
    return re.sub(r"@(microbatch|update)", rf"@\1_dp{dp}_tp{tp}", text)


def uneven():
    classes = [functions(dp, tp) for dp in (0, 1) for tp in (0, 1)]
    mesh = '  dist.mesh @mesh ["dp" = 2, "tp" = 2]\n'
    return f"module @parts {{\n{mesh}{''.join(classes)}}}\n"


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path, one_device(BATCH, HIDDEN), uneven(), BATCH, HIDDEN)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_results_are_those_of_the_whole_program(cleave_run, files, kind):
    expect_same_results(cleave_run, files, kind)


def test_dumps_are_whole(cleave_run, files):
    cleave_run.succeed(
        files / "parts.mlir", "--inputs", files / "in.safetensors", "--ranks", 4,
        "--check", "replicated", "--dump", files / "out.safetensors",
    )  # fmt: skip
    dumped = load_file(files / "out.safetensors")
    assert dumped["grad.w"].shape == (4, HIDDEN)
    assert dumped["output.0"].shape == (BATCH, 2)


def test_training_and_resuming(cleave_run, files):
    data = ("--data", f"safetensors:{files}/data.safetensors", "--quiet")
    cleave_run.succeed(
        files / "parts.mlir", "--against", files / "whole.mlir", "--steps", 4, *data,
        "--ranks", 4, "--ranks-as", "threads", "--tolerance", 1e-6,
    )  # fmt: skip
    saved = ("--ranks", 4, "--checkpoint", files / "parts")
    cleave_run.succeed(files / "parts.mlir", "--steps", 2, *data, *saved)
    cleave_run.succeed(files / "parts.mlir", "--steps", 4, *data, *saved, "--resume")
    cleave_run.succeed(files / "whole.mlir", "--steps", 4, *data, "--checkpoint", files / "whole")
    newest = [max((files / name).glob("step-*")) for name in ("parts", "whole")]
    parts, whole = map(checkpoint_group, newest)
    for name in ("w", "v"):
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-6, atol=1e-6)


def test_files_with_other_shapes(cleave_run, files):
    save_file({"w": torch.randn(4, 6), "v": torch.randn(HIDDEN, 2)}, files / "other.safetensors")
    message = cleave_run.fail(
        files / "parts.mlir", "--inputs", files / "in.safetensors", "--ranks", 4,
        "--weights", files / "other.safetensors",
    )  # fmt: skip
    # Whichever rank is asked first: its part is of 3 or of 2.
    assert re.search(r"'w': the program has F32 \[4, 5\], 1 x 2 parts of F32 \[4, [23]\], the file F32 \[4, 6\]", message), message


def test_a_number_of_ranks_that_does_not_fit(cleave_run, files):
    message = cleave_run.fail(
        files / "parts.mlir", "--inputs", files / "in.safetensors", "--ranks", 3
    )
    assert 'mesh ["dp" = 2, "tp" = 2] expects 4 ranks, found 3' in message


def test_passes_that_need_one_function_say_so(build_dir, files):
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", files / "parts.mlir", "--partition-joint"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert "because dimensions do not divide evenly; expected a program with one function for all ranks" in result.stderr


FUNCTION = """
  func.func @{name}(%x: tensor<{size}xf32, #S> {{train.role = #train.role<input "x">}})
      -> (tensor<5xf32, #R> {{train.role = #train.role<output "0">}})
      attributes {{train.phase = #train.phase<microbatch>, train.ranks = {ranks}}} {{
    {body}
    return %y : tensor<5xf32, #R>
  }}
"""
GATHER = '%y = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<{size}xf32, #S> -> tensor<5xf32, #R>'
ZEROS = "%y = aten.zeros(size = [5]) : () -> tensor<5xf32, #R>"


def one(size, ranks, body=GATHER, name=None):
    return FUNCTION.format(
        name=name or f"f{size}", size=size, ranks=ranks, body=body.format(size=size)
    )


@pytest.mark.parametrize(
    "functions, expected",
    [
        (
            [one(3, "{tp = array<i64: 0>}")],
            "no function of the program is for the rank with tp = 1",
        ),
        (
            [one(3, "{tp = array<i64: 0>}"), one(2, "{tp = array<i64: 0, 1>}")],
            "is for the rank with tp = 0, which has other functions already",
        ),
        (
            [one(3, "{tp = array<i64: 0>}"), one(2, "{tp = array<i64: 2>}")],
            "is for place 2 along axis \"tp\", which has 2 ranks",
        ),
        (
            [one(3, "{ep = array<i64: 0>}")],
            'is for ranks along "ep", which is not an axis of known size of the module\'s mesh',
        ),
        (
            [one(3, "{tp = array<i64: 0>}"), one(2, "{tp = array<i64: 1>}", ZEROS)],
            "ends its communication after 0 operations, where other ranks run another operation",
        ),
        (
            [
                one(3, "{tp = array<i64: 0>}"),
                one(2, "{tp = array<i64: 1>}").replace('input "x"', 'input "y"'),
            ],
            'has #train.role<input "y"> as argument 0',
        ),
    ],
)
def test_classes_that_do_not_fit(cleave_run, tmp_path, functions, expected):
    header = "#S = #dist.on<@mesh, tp = S(0)>\n#R = #dist.on<@mesh, tp = R>\nmodule {\n"
    mesh = 'dist.mesh @mesh ["tp" = 2]\n'
    (tmp_path / "p.mlir").write_text(header + mesh + "".join(functions) + "}\n")
    message = cleave_run.fail(tmp_path / "p.mlir", "--dry-run")
    assert expected in message


HIDDEN_OVER_3 = {"h.*.mlp.c_fc": ColwiseParallel(), "h.*.mlp.c_proj": RowwiseParallel()}


def test_a_model_over_three_ranks(build_dir, model, example, cleave_run, tmp_path):
    """128 hidden features of each block over 3 ranks: 43, 43 and 42."""
    subject = model("gpt_untied")
    Plan({"tp": 3}, HIDDEN_OVER_3).write(tmp_path / "plan.json")
    local = tmp_path / "local.mlir"
    opt = [build_dir / "bin" / "cleave-opt", subject.program]
    annotate = f"--annotate-placements=plan={tmp_path}/plan.json"
    subprocess.run(
        [*opt, annotate, "--propagate-placements=uneven=true", "--partition=uneven=true", "-o", local],
        check=True, env=ENVIRONMENT, timeout=120,
    )  # fmt: skip
    text = local.read_text()
    assert "train.ranks = {tp = array<i64: 0, 1>}" in text
    assert "train.ranks = {tp = array<i64: 2>}" in text and "tensor<42x32xf32" in text
    local.with_suffix(".safetensors").symlink_to(subject.weights)
    cleave_run.succeed(
        local, "--against", subject.program, "--inputs", example(subject.spec), "--ranks", 3,
        "--tolerance", 3e-6,
    )  # fmt: skip
    batches = random_batches(subject.spec, 20, 1, 11)
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")

    def run(program, *options):
        metrics = tmp_path / f"{program.stem}.jsonl"
        train(build_dir, program, "--steps", 20, "--threads", 1, "--data", f"safetensors:{data}",
              "--metrics", metrics, *options)  # fmt: skip
        return losses(metrics)

    expected = run(subject.program)
    for a, b in zip(run(local, "--ranks", 3, "--ranks-as", "threads"), expected, strict=True):
        assert abs(a - b) <= 1e-5 * abs(b)


def test_without_the_option_uneven_parts_are_refused(build_dir, model, tmp_path):
    subject = model("gpt_untied")
    Plan({"tp": 3}, HIDDEN_OVER_3).write(tmp_path / "plan.json")
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", subject.program,
         f"--annotate-placements=plan={tmp_path}/plan.json", "--propagate-placements"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert "of size 128, over the 3 ranks" in result.stderr
    assert "unless the option uneven is set" in result.stderr
