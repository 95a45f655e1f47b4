"""Equal layers share kernels: a model of more layers has no more kernels, whatever its layout and stages."""

import re
import subprocess

import cleave_path  # noqa: F401
import cleave
import huggingface
import pytest
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, SequenceParallel

LAYER = "model.model.layers.*."
PLAN = {
    LAYER + "self_attn.{q,k,v}_proj": ColwiseParallel(),
    LAYER + "self_attn.o_proj": RowwiseParallel(),
    LAYER + "mlp.{gate,up}_proj": ColwiseParallel(),
    LAYER + "mlp.down_proj": RowwiseParallel(),
    LAYER + "{input,post_attention}_layernorm": SequenceParallel(),
    "": FSDP("dp"),
}
LAYOUT = ["--annotate-placements=plan={plan}", "--propagate-placements", "--partition", "--cse", "--canonicalize"]
STAGES = ["--outline-stages=count=2 balance=cost", "--split-backward", "--split-fsdp-collectives"]
STAGES += ["--bucket-gradients", "--clip-gradients", "--overlap-communication"]


def kernels_of(build_dir, program, *passes):
    """The bodies of the program's kernels, and how many launches there are."""
    command = [build_dir / "bin" / "cleave-opt", program, *passes, "--fuse-kernels", "--mlir-print-local-scope"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    bodies = re.findall(r"^  exec\.kernel @\w+(.*?^  })", text, re.MULTILINE | re.DOTALL)
    return bodies, text.count("exec.launch")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    return {
        layers: cleave.export_spec(
            huggingface._language_model(huggingface._llama(layers, width=16, vocabulary=64), f"llama{layers}", time=8),
            folder,
        )
        for layers in (4, 8)
    }


@pytest.mark.parametrize("passes", [[], [*LAYOUT, *STAGES]], ids=["one device", "stages on a mesh"])
def test_more_layers_have_no_more_kernels(tmp_path, build_dir, programs, passes):
    plan = tmp_path / "plan.json"
    Plan({"dp": 2, "tp": 2}, PLAN).write(plan)
    passes = [each.format(plan=plan) for each in passes]
    few, launches = kernels_of(build_dir, programs[4], *passes)
    many, more_launches = kernels_of(build_dir, programs[8], *passes)
    assert more_launches > 1.5 * launches
    assert len(few) == len(set(few)) > 5
    assert len(many) == len(few)
