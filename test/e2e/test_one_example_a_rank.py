"""One example for each rank of the batch: local shapes have a 1 beside other dimensions, and which of them
is sharded cannot be told from sizes."""

import subprocess

import pytest
from cleave import ColwiseParallel, DataParallel, Plan, RowwiseParallel, SequenceParallel

KERNELS = ["--fuse-kernels", "--compile-kernels", "--lower-to-exec"]
RINGS = ["--async-tp=chunks=1 min-mb=0"]
# Megatron's layout of examples/llama.py, norms on parts of the sequence.
TENSOR = {
    "layers.*.self_attn.{q,k,v}_proj": ColwiseParallel(),
    "layers.*.self_attn.o_proj": RowwiseParallel(),
    "layers.*.mlp.{gate,up}_proj": ColwiseParallel(),
    "layers.*.mlp.down_proj": RowwiseParallel(),
    "**.{input,post_attention}_layernorm": SequenceParallel(),
    "norm": SequenceParallel(),
}
GPT_TENSOR = {
    "h.*.mlp.c_fc": ColwiseParallel(),
    "h.*.mlp.c_proj": RowwiseParallel(),
    "h.*.ln_2": SequenceParallel(),
}
DATA = {"": DataParallel("dp")}

# All have two examples in a microbatch, so that a rank of dp has one.
CASES = {
    "moe": ("moe", {"dp": 2}, DATA, KERNELS),
    "llama": ("llama", {"dp": 2}, DATA, KERNELS),
    "gpt": ("gpt_untied_dropout", {"dp": 2}, DATA, KERNELS),
    "llama_rings": ("llama_small", {"dp": 2, "tp": 2}, TENSOR | DATA, RINGS + KERNELS),
    "gpt_rings": ("gpt_tied", {"dp": 2, "tp": 2}, GPT_TENSOR | DATA, RINGS + KERNELS),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_rings_compute_what_one_rank_does(
    name, program, example, build_dir, cleave_run, tmp_path
):
    model, mesh, plan, passes = CASES[name]
    spec, path = program(model)
    Plan(mesh, plan).write(tmp_path / "plan.json")
    placed, local = tmp_path / "placed.mlir", tmp_path / "local.mlir"
    opt = build_dir / "bin" / "cleave-opt"
    annotate = f"--annotate-placements=plan={tmp_path / 'plan.json'}"
    subprocess.run(
        [opt, path, annotate, "--propagate-placements", "--partition", "-o", placed], check=True
    )
    subprocess.run([opt, placed, *passes, "--check-spmd-types", "-o", local], check=True)
    text = local.read_text()
    assert "exec.launch" in text and ("dist.shift" in text) == (passes is not KERNELS)
    for local_program in (placed, local):
        local_program.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        cleave_run.succeed(
            local_program, "--ranks", 2 ** len(mesh), "--ranks-as", "threads", "--seed", 3,
            "--inputs", example(spec), "--against", path, "--tolerance", 3e-6)
