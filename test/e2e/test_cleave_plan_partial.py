"""cleave-plan --plan: rules of the user's plan hold in what it finds, and one error names those that contradict."""

import json
import re

import pytest
from test_cleave_plan import check_commands, check_training, exported, find, one_rank, tool  # noqa: F401

import cleave
from cleave import ColwiseParallel, FSDP, Plan, Replicate, RowwiseParallel, SequenceParallel, Shard

# Attention is left whole, and the table of inputs is cut along its columns.
PARTIAL = {
    "h.*.attn.{c_attn,c_proj}.weight": {"tp": Replicate()},
    "h.*.attn.c_attn.bias": {"tp": Replicate()},
    "wpe.weight": {"tp": Shard(1)},
}


@pytest.fixture
def write(tmp_path):
    """A plan's file; as users write it, without a mesh where none is given."""

    def run(rules, mesh=None, name="partial.json"):
        path = tmp_path / name
        Plan(mesh or {"tp": 2}, rules).write(path)
        if mesh is None:
            written = json.loads(path.read_text())
            del written["mesh"]
            path.write_text(json.dumps(written, indent=1))
        return path

    return run


def placements(found, name):
    return {key: tensor["placement"] for tensor in found["tensors"] if tensor["argument"] for key in [tensor["name"]] if re.search(name, key)}


@pytest.mark.parametrize("ranks,fixed", [(2, "tp=2"), (4, "tp=2,dp=2,parameters=zero1"), (4, "tp=2,pp=2,schedule=1f1b")])
def test_rules_hold_in_what_is_found(exported, find, one_rank, write, build_dir, tmp_path, ranks, fixed):  # noqa: F811
    program, data = exported("gpt")
    partial = write(PARTIAL)
    usual = find(program, ranks, f"--fix={fixed}", "--explain")
    found = find(program, ranks, f"--fix={fixed}", f"--plan={partial}", "--explain", "-o", tmp_path / "plan")
    assert found["complete"] and found["gap"] == 0
    for name in (r"parameter h\.\*\.attn\.c_(attn|proj)\.weight$", r"parameter h\.\*\.attn\.c_attn\.bias$"):
        held, others = placements(found, name), placements(usual, name)
        assert held and all(placement["tp"] == "R" for placement in held.values())
        assert all(placement["tp"] != "R" for placement in others.values())
    assert {placement["tp"] for placement in placements(found, r"parameter wpe\.weight").values()} == {"S(1)"}
    # What no rule is for is still derived.
    mlp = placements(found, r"parameter h\.\*\.mlp\.c_fc\.weight")
    assert mlp == placements(usual, r"parameter h\.\*\.mlp\.c_fc\.weight") and all(place["tp"] != "R" for place in mlp.values())
    check_commands(found, build_dir, tmp_path / "plan")
    check_training(found, program, data, build_dir, tmp_path / "plan", one_rank("gpt"))


def test_the_bound_is_of_plans_with_the_rules(exported, find, tool, write):  # noqa: F811
    """Searched to the end it equals brute force, and no random plan is below it."""
    program, _ = exported("gpt")
    partial = write(PARTIAL)
    found, brute = (find(program, 4, f"--plan={partial}", *more) for more in ((), ("--exhaustive",)))
    assert found["best"]["seconds"] == found["lower_bound"] == brute["best"]["seconds"]
    done = tool(program, "--cluster=A100", "--ranks=4", "--microbatches=4", f"--plan={partial}", "--sample=60", "--confirm")
    assert done.returncode == 0, done.stderr
    assert "60 random plans take at least " in done.stderr


def test_a_mesh_is_fixed(exported, find, tool, write):  # noqa: F811
    program, _ = exported("gpt")
    partial = write({"h.*.mlp.c_fc": ColwiseParallel()}, mesh={"dp": 2, "tp": 2})
    plan = find(program, 4, f"--plan={partial}")["best"]["plan"]
    assert (plan["dp"], plan["tp"], plan["pp"]) == ("2", "2", "1")
    done = tool(program, "--cluster=A100", "--ranks=4", "--microbatches=4", f"--plan={partial}", "--fix=tp=4,pp=1")
    assert done.returncode == 1
    assert done.stderr == f"cleave-plan: error: --fix=tp=4 contradicts the mesh of {partial}, which has tp=2\n"
    found = cleave.find_plan(program, cluster="A100", ranks=4, microbatches=4, plan=partial)
    assert found.plan == plan


def test_misuse(exported, tool, write, tmp_path):  # noqa: F811
    program, _ = exported("gpt")

    def message(path, *more):
        done = tool(program, "--cluster=A100", "--ranks=4", "--microbatches=4", f"--plan={path}", *more)
        assert done.returncode == 1 and not done.stdout, done.stdout
        assert done.stderr.startswith("cleave-plan: error: ") and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr.removeprefix("cleave-plan: error: ").strip()

    # Two rules that contradict each other, and no others.
    both = message(write({"h.*.mlp.c_proj": RowwiseParallel(), "h.*.mlp.c_fc": ColwiseParallel(), "h.*.mlp.c_fc.weight": {"tp": Shard(1)}}))
    assert "rules[1]" in both and "rules[2]" in both and "rules[0]" not in both
    assert "expected rules of the axis tp, found one of dp" in message(write({"": FSDP()}, mesh={"dp": 2}))
    assert "rules[0]" in (few := message(write({"h.0.mlp.c_fc": ColwiseParallel()})))
    assert "expected a rule of all layers or of none, found one of h.0.mlp.c_fc." in few
    assert "nowhere" in message(write({"nowhere": ColwiseParallel()}))
    assert "expected the axes dp, ep, tp, cp, pp, found x" in message(write({"h.*.ln_1": SequenceParallel("x")}, mesh={"x": 2}))
    assert message(tmp_path / "absent.json").startswith(f"{tmp_path}/absent.json: ")
    (tmp_path / "cut.json").write_text('{"rules": [')
    assert message(tmp_path / "cut.json").startswith(f"{tmp_path}/cut.json:")
