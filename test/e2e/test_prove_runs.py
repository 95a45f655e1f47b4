"""What is not proved is run as a whole step, with its update: also of programs that types or attributes place, with buffers, and with
gradients in buckets and in shards. Errors are refuted with an input, and what is right is not."""

import dataclasses
import re
import subprocess

import bug_programs
import cleave
import placement_cases as cases
import pytest
import torch
from combinations_cover import covered, part_of_today, seed
from exported_models import MODELS
from own_optimizers import Lion
from test_prove_batches import BUCKETS, CLIP, SYNC, replaced
from test_prove_steps import Signs
from training import ENVIRONMENT
from zero_programs import Zero

# What is added to a sum, and the same there and back: right, and not proved. A rank's term goes through linear ops alone.
SUMMED = r"(%\S+) = train\.(accumulate|contribute) (%\S+) (.*? : )(tensor<[^>]*>)(.*)"
BACK = r"%tan = aten.tan(\3) : (\5) -> \5\n    %back = aten.atan(%tan) : (\5) -> \5\n    \1 = train.\2 %back \4\5\6"
FLIPPED = r"%flip = aten.flip(\3, dims = [0]) : (\5) -> \5\n    %back = aten.flip(%flip, dims = [0]) : (\5) -> \5\n    \1 = train.\2 %back \4\5\6"
TWICE = r"%twice = aten.add(\3, \3) : (\5, \5) -> \5\n    \1 = train.\2 %twice \4\5\6"


@pytest.fixture(scope="module")
def opt(build_dir):
    """Without locations, which would be in the way of edits."""

    def run(source, output, *passes):
        made = subprocess.run(
            [build_dir / "bin" / "cleave-opt", source, *passes, "-o", output], capture_output=True, text=True, env=ENVIRONMENT, timeout=120
        )
        assert made.returncode == 0, made.stderr
        return output

    return run


@pytest.fixture
def changed(tmp_path):
    """A program with an edit at a place that matches, by the run's seed; in `function` alone if one is given."""
    count = 0

    def make(text, old, new, function=""):
        nonlocal count
        count += 1
        path = tmp_path / f"changed{count}.mlir"
        at = text.index(f"func.func @{function}") if function else 0
        path.write_text(text[:at] + replaced(old, new)(text[at:]))
        return path

    return make


def names(answer):
    return {example["name"] for example in answer["execution"]["counterexamples"]}


# Programs that types place.


@pytest.fixture(scope="module")
def placed(opt, model, tmp_path_factory):
    """A model, changed by what changes the step, and its program of ranks, with types and without."""
    folder = tmp_path_factory.mktemp("placed")

    def make(name, mesh, *passes, program=None):
        whole = program or model(name).program
        plan = cases.plan(name, mesh).write(folder / "plan.json")
        place = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]
        part = opt(whole, folder / "part.mlir", *place, *passes)
        if CLIP in passes:
            whole = opt(whole, folder / "whole.mlir", CLIP)
            whole.with_suffix(".safetensors").unlink(missing_ok=True)
            whole.with_suffix(".safetensors").symlink_to(model(name).weights)
        return whole, part.read_text()

    return make


def back_and_forth(text):
    """An edit for types: of terms in some places, else of any value."""
    of_terms = SUMMED.replace("[^>]*>)", r"[^>]*#P\w*>)")
    return (of_terms, FLIPPED) if re.search(of_terms, text) else (SUMMED, BACK)


def assert_run(prove, changed, whole, text, microbatches=2):
    """What is right is not refuted, and a gradient that is added twice is."""
    for old, new, expected in ((*back_and_forth(text), "unknown"), (SUMMED, TWICE, "refuted")):
        answer = prove(whole, changed(text, old, new), "--time-limit=200", runs=True)
        assert answer["answer"] == expected, answer
        run = answer["execution"]
        assert run["float64"] and run["update"] and run["microbatches"] == microbatches and run["own_microbatches"] == 0, run
        assert run["values"] > 50 and run["turning"] == 0
    assert any(each.startswith("grad.") for each in names(answer)), names(answer)
    assert any(each.startswith("optim.") for each in names(answer)), names(answer)


@covered(
    {
        "name, mesh": [
            ("gpt_untied", "dp2"), ("gpt_untied", "fsdp2"), ("gpt_tied", "tp2, sequence"), ("llama", "fsdp2 x tp2"), ("llama", "cp2"),
            ("moe", "dp2"), ("gpt_dropout", "tp2"), ("resnet18", "dp2"), ("gpt2", "fsdp2"),
        ],
        "passes": {
            "": (), "joint": ("--partition-joint",), "clipped": (CLIP,),
            "buckets": ("--partition-joint", "--split-fsdp-collectives", BUCKETS),
        },
    },
    strength=1,
)  # fmt: skip
def test_typed_programs(placed, prove, changed, name, mesh, passes):
    assert_run(prove, changed, *placed(name, mesh, *passes))


@pytest.mark.parametrize("name, mesh, schedule", [("gpt_untied", "dp2", "1f1b"), ("llama", "fsdp2", "zbv")])
def test_stages_of_typed_programs(placed, prove, changed, name, mesh, schedule):
    """With the microbatches of the schedule."""
    stages = ["--outline-stages=count=4 balance=cost", "--split-backward"] if schedule == "zbv" else ["--outline-stages=count=2 balance=cost"]
    passes = [*stages, "--split-fsdp-collectives", f"--build-schedule=schedule={schedule} ranks=2 microbatches=4", "--insert-p2p"]
    assert_run(prove, changed, *placed(name, mesh, *passes), microbatches=4)


@pytest.mark.parametrize(
    "name, mesh", [("gpt_untied", "dp2 x tp2"), ("gpt_untied", "fsdp2"), ("gpt_tied", "dp2"), ("llama", "tp2, sequence"), ("moe", "tp2")]
)
def test_programs_without_types(placed, prove, changed, name, mesh):
    """Of which attributes say how arguments and results lie."""
    whole, text = placed(name, mesh)
    assert_run(prove, changed, whole, bug_programs.erase(text))


PLACED_ERRORS = {
    # A shard of the parameters that is another rank's, in the forward or of another parameter.
    "gathered": ("fsdp2", r"(%\S+) = dist\.all_gather\((%\S+)\) (dim 0 over @mesh \[\"dp\"\]) : (\S+) -> (\S+)",
                 r'%other = dist.shift(\2) by 1 wrap over @mesh ["dp"] : \4\n    \1 = dist.all_gather(%other) \3 : \4 -> \5', "microbatch"),
    "scattered twice": ("fsdp2", r"(%\S+) = (dist\.reduce_scatter sum\(%\S+\) .*) : (\S+) -> (\S+)",
                        r'%once = \2 : \3 -> \4\n    \1 = dist.all_reduce sum(%once) over @mesh ["dp"] : \4', "microbatch"),
    "not reduced": ("dp2", r"(%\S+) = dist\.all_reduce sum\((%\S+)\) over @mesh \[\"dp\"\] : (\S+)", r"\1 = aten.alias(\2) : (\3) -> \3", "update"),
    "reduced twice": ("dp2", r"(%\S+) = (dist\.all_reduce sum\(%\S+\) (over @mesh \[\"dp\"\])) : (\S+)",
                      r"%once = \2 : \4\n    \1 = dist.all_reduce sum(%once) \3 : \4", "update"),
    "averaged": ("dp2", r"(%\S+) = dist\.all_reduce sum(\(%\S+\) over @mesh \[\"dp\"\] : \S+)", r"\1 = dist.all_reduce avg\2", "update"),
    "another gradient's step": ("tp2", r"(train\.adamw\(%\S+, )(?!%again,)(%\S+)(, .*\} : tensor<32xf32>)", r"\1%again\3", "update"),
}  # fmt: skip


@pytest.mark.parametrize("error", PLACED_ERRORS)
def test_errors_of_placed_programs(placed, prove, changed, error):
    """Without types, to which most of them would be errors: of a shard, and of the reductions that only an update sees."""
    mesh, old, new, function = PLACED_ERRORS[error]
    whole, text = placed("gpt_untied", mesh)
    text = bug_programs.erase(text)
    if "%again" in new:
        update = text.index("func.func @update")
        other = re.findall(r"(%\w+): tensor<32xf32> \{[^}]*#train\.role<gradient", text[update:])[-1]
        old, new = old.replace("%again", other), new.replace("%again", other)
    wrong = changed(text, old, new, function)
    answer = prove(whole, wrong, runs=True)
    assert answer["answer"] == "refuted", answer
    kinds = {each.split(".")[0] for each in names(answer)}
    assert "param" in kinds and ("grad" in kinds) == (function == "microbatch"), names(answer)


# Ranks with microbatches of their own.


def optimized(optimizer, folder, module=None, **options):
    torch.manual_seed(seed())
    module = module or torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    return cleave.export(
        module, (torch.randn(4, 8),), loss=torch.nn.functional.mse_loss, targets=(torch.randn(4, 4),),
        optimizer=optimizer(module.parameters(), lr=0.01, **options), out=folder,
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.NAdam, torch.optim.Adagrad, torch.optim.Rprop, torch.optim.Adafactor, Lion, Signs])
def test_optimizers_of_typed_programs(opt, prove, changed, tmp_path, optimizer):
    """Also those that go by signs and comparisons, with gradients in terms and in shards."""
    program = optimized(optimizer, tmp_path)
    for style in (cleave.DataParallel("dp"), cleave.FSDP("dp")):
        plan = cleave.Plan({"dp": 2}, {"": style}).write(tmp_path / "plan.json")
        place = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]
        text = opt(program, tmp_path / "part.mlir", *place).read_text()
        for old, new, expected in ((*back_and_forth(text), "unknown"), (SUMMED, TWICE, "refuted")):
            answer = prove(program, changed(text, old, new), runs=True)
            assert answer["answer"] == expected, answer
            run = answer["execution"]
            assert run["update"] and run["microbatches"] == 2 and run["turning"] == 0, run


def test_targets_that_count(opt, prove, changed, tmp_path):
    """Microbatches of typed programs may count by their targets."""
    program = cleave.export_spec(dataclasses.replace(MODELS["gpt_untied"](), mean_over="targets"), tmp_path)
    plan = cases.plan("gpt_untied", "dp2").write(tmp_path / "plan.json")
    part = opt(program, tmp_path / "part.mlir", f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition")
    assert_run(prove, changed, program, part.read_text())


@pytest.mark.parametrize("optimizer", [Signs, Lion, torch.optim.Rprop])
def test_gradients_in_buckets(opt, prove, changed, tmp_path, optimizer):
    """Updates that go by signs make the same step of twice a gradient: what lies in the bucket shows it."""
    program = optimized(optimizer, tmp_path)
    text = opt(program, tmp_path / "part.mlir", f"{SYNC} size=3", BUCKETS).read_text()
    for new, expected in ((BACK, "unknown"), (TWICE, "refuted")):
        answer = prove(program, changed(text, SUMMED, new), runs=True)
        assert answer["answer"] == expected, answer
        assert answer["execution"]["turning"] == 0
    gradients = [each for each in names(answer) if each.startswith("grad.")]
    assert len(gradients) == 1 and (optimizer is not Signs or names(answer) == set(gradients)), names(answer)


@pytest.mark.parametrize("ranks, level", part_of_today([(2, 2), (2, 3), (4, 2), (4, 3)]))
def test_gradients_in_shards(opt, prove, model, changed, tmp_path, ranks, level):
    """A shard of the sum over the ranks that a rank adds up is compared, not only what the update makes of it."""
    program = model("gpt_untied").program
    part = Zero(opt(program, tmp_path / "part.mlir", f"{SYNC} size={ranks}").read_text(), ranks, level).text()
    scattered = r"(%\S+) = dist\.reduce_scatter sum(\(%\S+\) .*) : (\S+) -> (\S+)"
    for new, expected in (
        (r"%sum = dist.reduce_scatter sum\2 : \3 -> \4\n    %tan = aten.tan(%sum) : (\4) -> \4\n    \1 = aten.atan(%tan) : (\4) -> \4", "unknown"),
        (r"\1 = dist.reduce_scatter avg\2 : \3 -> \4", "refuted"),
    ):
        answer = prove(program, changed(part, scattered, new, "microbatch"), "--weights", model("gpt_untied").weights, runs=True)
        assert answer["answer"] == expected, answer
        assert answer["execution"]["values"] == 1 + 4 * 29
    found = {each for each in names(answer) if each.startswith("grad.")}
    assert len(found) == 1, names(answer)
    (example,) = (each for each in answer["execution"]["counterexamples"] if each["name"] in found)
    assert example["local"] == pytest.approx(example["global"] / ranks, rel=1e-9)


class Dropped(torch.nn.Module):
    """Statistics of what a random number leaves of the input."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.norm(torch.nn.functional.dropout(self.first(x), 0.25)))


NORM = r"(%\w+), (%\w+), (%\w+), (%\w+), (%\w+) = aten\._native_batch_norm_legit_functional(\(.*) : (\(.*\)) -> \((\S+), (\S+), (\S+), (\S+), (\S+)\)"
MADE = r"\1, \2, \3, %one, \5 = aten._native_batch_norm_legit_functional\6 : \7 -> (\8, \9, \g<10>, \g<11>, \g<12>)" + "\n    "
BUFFERS = {
    "updated twice": MADE + r"\4 = aten.add(%one, \2, alpha = 0.1) : (\g<11>, \g<9>) -> \g<11>",
    "not updated": MADE + r"\4 = aten.mul_scalar(%one, other = 0.0) : (\g<11>) -> \g<11>",
    "another rank's": MADE + r'\4 = dist.shift(%one) by 1 wrap over @mesh ["dp"] : \g<11>',
    "of all ranks": MADE + r'\4 = dist.all_reduce avg(%one) over @mesh ["dp"] : \g<11>',
}


@pytest.mark.parametrize("error", [None, *BUFFERS])
@pytest.mark.parametrize("passes", [(), ("--partition-joint", BUCKETS)], ids=["", "buckets"])
def test_buffers(opt, prove, changed, tmp_path, error, passes):
    """Each rank may have those of its own microbatches, with their random numbers, or those of all; no others."""
    program = optimized(torch.optim.SGD, tmp_path, Dropped())
    part = opt(program, tmp_path / "part.mlir", f"{SYNC} size=3", *passes)
    wrong = part if error is None else changed(part.read_text(), NORM, BUFFERS[error])
    answer = prove(program, wrong, runs=True)
    assert answer["answer"] == ("refuted" if error else "unknown"), answer
    # A loss, six parameters and their gradients, and three buffers.
    assert answer["execution"]["values"] == 16
    assert names(answer) == ({"buffer.norm.running_mean"} if error else set())
    if error:
        (example,) = answer["execution"]["counterexamples"]
        assert 0 <= example["rank"] < 3 and example["local"] != example["global"]


def test_buffers_of_stages(opt, prove, changed, tmp_path):
    """A pipeline's stages have some of them each."""
    program = optimized(torch.optim.SGD, tmp_path, Dropped())
    stages = ("--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=4", "--insert-p2p")
    text = opt(program, tmp_path / "part.mlir", f"{SYNC} size=2", *stages).read_text()
    for wrong, expected in ((tmp_path / "part.mlir", "unknown"), (changed(text, NORM, BUFFERS["updated twice"]), "refuted")):
        answer = prove(program, wrong, runs=True)
        assert answer["answer"] == expected, answer
        assert answer["execution"]["own_microbatches"] == 4
    assert names(answer) == {"buffer.norm.running_mean"}
