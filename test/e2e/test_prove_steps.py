"""What is not proved of ranks with microbatches of their own is run: a step of all ranks, with its update, against one of one device.
Errors are refuted, and what only looks like one is not."""

import dataclasses
import re
import subprocess

import cleave
import pytest
import torch
from combinations_cover import seed
from exported_models import MODELS
from own_optimizers import Lion
from test_prove_batches import CLIP, ERRORS, HALF, REDUCED, SCALE, STAGES, SYNC, ZERO_BUBBLE, opt, programs, replaced  # noqa: F401
from training import ENVIRONMENT


def twice_in_a_bucket(text):
    """Contributes a gradient twice over."""
    old = r"(%\S+) = train\.contribute (%\S+)( to .* : (tensor<\S+>),.*)"
    return re.sub(old, r"%twice = aten.add(\2, \2) : (\4, \4) -> \4\n    \1 = train.contribute %twice\3", text, count=1)


@pytest.mark.parametrize(
    "passes, error, ranks, microbatches",
    [((SYNC, SCALE, CLIP), "dropped", 3, 2), ((SYNC, "--partition-joint"), "doubled", 3, 2), ((SYNC, *STAGES), "averaged", 6, 4),
     ((f"{SYNC} size=2", *STAGES), "averaged over microbatches again", 4, 4), (ZERO_BUBBLE, None, 6, 4)],
    ids=["scaled", "parts", "1f1b", "1f1b of two", "zbv"],
)  # fmt: skip
def test_steps(programs, prove, model, tmp_path, passes, error, ranks, microbatches):  # noqa: F811
    """In pipelines each rank along the axis of the batch has the schedule's microbatches."""
    whole, part = programs("gpt_untied", *passes)
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text((ERRORS[error][0] if error else twice_in_a_bucket)(part.read_text()))
    assert wrong.read_text() != part.read_text()
    answer = prove(whole, wrong, "--weights", model("gpt_untied").weights, "--time-limit=200", runs=True)
    assert answer["answer"] == "refuted", answer
    run = answer["execution"]
    assert (run["ranks"], run["own_microbatches"], run["float64"], run["update"]) == (ranks, microbatches, True, True)


@pytest.mark.parametrize(
    "name, error", [("llama", "dropped"), ("gpt2", "averaged"), ("moe", "reduced in each microbatch"), ("resnet18", "doubled")]
)
def test_models(programs, prove, tmp_path, name, error):  # noqa: F811
    """Of Hugging Face and torchvision, too. Buffers are each rank's own, which is no error."""
    whole, part = programs(name, SYNC)
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(ERRORS[error][0](part.read_text()))
    answer = prove(whole, wrong, "--assume=own-buffers", "--time-limit=200", runs=True)
    assert answer["answer"] == "refuted", answer
    assert all(not example["name"].startswith("buffer.") for example in answer["execution"]["counterexamples"])
    assert {finding["op"] for finding in answer["findings"]} <= {"dist.all_reduce", "train.accumulate", "train.adamw"}


# What is right, however it looks, in place of a sum over three ranks; and whether it is proved.
SUM = r'%sum = dist.all_reduce sum(\2) over @mesh ["dp"]\3' + "\n    "
BACK = SUM + "%tan = aten.tan(%sum) : (\\4) -> \\4\n    \\1 = aten.atan(%tan) : (\\4) -> \\4"
RIGHT = {
    "scaled before and after": (
        HALF + '%sum = dist.all_reduce sum(%half) over @mesh ["dp"]\\3\n    \\1 = aten.mul_scalar(%sum, other = 2.0) : (\\4) -> \\4', True,
    ),
    "scaled after": (
        SUM + "%less = aten.mul_scalar(%sum, other = 0.25) : (\\4) -> \\4\n    \\1 = aten.mul_scalar(%less, other = 4.0) : (\\4) -> \\4", True,
    ),
    "averaged, times three": (
        '%mean = dist.all_reduce avg(\\2) over @mesh ["dp"]\\3\n    \\1 = aten.mul_scalar(%mean, other = 3.0) : (\\4) -> \\4', True,
    ),
    "scaled in the reduction": (
        '%sum = dist.all_reduce premul_sum<0.5>(\\2) over @mesh ["dp"]\\3\n    \\1 = aten.mul_scalar(%sum, other = 2.0) : (\\4) -> \\4', True,
    ),
    "the greatest of what is equal": (SUM + r'\1 = dist.all_reduce max(%sum) over @mesh ["dp"]\3', True),
    "there and back": (BACK, False),
}  # fmt: skip


@pytest.mark.parametrize("change", RIGHT)
def test_right_changes(programs, prove, tmp_path, change):  # noqa: F811
    """Proved, or at least not refuted."""
    whole, part = programs("gpt_untied", f"{SYNC} size=3")
    new, is_proved = RIGHT[change]
    right = tmp_path / "right.mlir"
    right.write_text(replaced(REDUCED, new)(part.read_text()))
    answer = prove(whole, right, runs=True)
    assert answer["answer"] == ("proved" if is_proved else "unknown"), answer["findings"][:2]
    if not is_proved:
        run = answer["execution"]
        assert run["update"] and run["values"] > 80 and not run["counterexamples"]


def test_two_axes(programs, opt, prove, tmp_path):  # noqa: F811
    """A gradient is summed over both, one after the other; without one of the sums it is refuted."""
    whole, part = programs("gpt_untied", f"{SYNC} size=2")
    mesh = tmp_path / "mesh.mlir"
    mesh.write_text(part.read_text().replace('["dp" = 2]', '["dp" = 2, "ep" = 3]'))
    both = opt(mesh, tmp_path / "both.mlir", "--sync-gradients=axis=ep").read_text()
    for old, new, expected in [(REDUCED, BACK, "unknown"), (REDUCED.replace('"dp', '"ep'), r"\1 = aten.alias(\2) : (\4) -> \4", "refuted")]:
        changed = tmp_path / "changed.mlir"
        changed.write_text(replaced(old, new)(both))
        answer = prove(whole, changed, runs=True)
        assert answer["answer"] == expected, answer
        assert (answer["execution"]["ranks"], answer["execution"]["own_microbatches"]) == (6, 2)


OPTIMIZERS = {
    torch.optim.SGD: {"lr": 0.01}, torch.optim.Adagrad: {}, torch.optim.RMSprop: {"centered": True}, torch.optim.NAdam: {},
    torch.optim.Adamax: {}, torch.optim.Rprop: {}, torch.optim.Adafactor: {}, Lion: {},
}  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(opt, prove, tmp_path, optimizer):  # noqa: F811
    """Also those that go by signs and comparisons of gradients."""
    torchvision = pytest.importorskip("torchvision")
    module = torchvision.ops.MLP(8, [16, 4])
    program = cleave.export(
        module, (torch.randn(4, 8),), loss=torch.nn.functional.mse_loss, targets=(torch.randn(4, 4),),
        optimizer=optimizer(module.parameters(), **OPTIMIZERS[optimizer]), out=tmp_path,
    )  # fmt: skip
    part = opt(program, tmp_path / "part.mlir", SYNC).read_text()
    for edit, expected in [(replaced(REDUCED, BACK), "unknown"), (ERRORS["dropped"][0], "refuted")]:
        changed = tmp_path / "changed.mlir"
        changed.write_text(edit(part))
        answer = prove(program, changed, runs=True)
        assert answer["answer"] == expected, answer
        assert answer["execution"]["update"] and answer["execution"]["values"] >= 5 and answer["execution"]["turning"] == 0


class Signs(torch.optim.Optimizer):
    """Goes by the signs of gradients alone."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(torch.sign(p.grad), alpha=-group["lr"])


class Centred(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        y = self.first(x)
        return self.second(torch.tanh(y - y.mean(0)))


@pytest.mark.parametrize("optimizer", [torch.optim.Rprop, Signs])
def test_signs_of_rounding(opt, prove, tmp_path, optimizer):  # noqa: F811
    """What is centred does not depend on a bias: its gradient is 0 but for rounding, and the sign of that is of any kind. So what a step
    makes of it says nothing; of the other gradients it still does."""
    torch.manual_seed(seed())
    module = Centred()
    program = cleave.export(
        module, (torch.randn(4, 8),), loss=torch.nn.functional.mse_loss, targets=(torch.randn(4, 4),),
        optimizer=optimizer(module.parameters(), lr=0.1), out=tmp_path,
    )  # fmt: skip
    part = opt(program, tmp_path / "part.mlir", f"{SYNC} size=3").read_text()
    update = part.index("func.func @update")

    def changed(name, new):
        gradient = re.search(rf'(%\w+): tensor<\S+> \{{train\.role = #train\.role<gradient "{name}">', part[update:])[1]
        path = tmp_path / "changed.mlir"
        old = REDUCED.replace(r"sum\((%\w+)\)", rf"sum\(({gradient})\)")
        path.write_text(part[:update] + re.sub(old, new, part[update:], count=1))
        assert path.read_text() != part
        return path

    rounded = SUM.replace("(\\2)", "(%more)") + "%less = aten.sub_scalar(%sum, other = 3.0) : (\\4) -> \\4\n    "
    rounded = "%more = aten.add_scalar(\\2, other = 1.0) : (\\4) -> \\4\n    " + rounded
    rounded += "%tan = aten.tan(%less) : (\\4) -> \\4\n    \\1 = aten.atan(%tan) : (\\4) -> \\4"
    answer = prove(program, changed("first.bias", rounded), runs=True)
    assert answer["answer"] == "unknown", answer
    assert answer["execution"]["turning"] >= 1 and answer["execution"]["update"]
    answer = prove(program, changed("second.weight", r"\1 = aten.alias(\2) : (\4) -> \4"), runs=True)
    assert answer["answer"] == "refuted", answer
    assert {re.sub("^(param|optim)\\.|\\.(prev|step_size)$", "", each["name"]) for each in answer["execution"]["counterexamples"]} == {"second.weight"}


@pytest.mark.parametrize("changes", [{"optimizer": None}, {"mean_over": "targets"}], ids=["of the caller", "shares of targets"])
def test_other_steps(opt, prove, tmp_path, changes):  # noqa: F811
    """One device may leave the sum over microbatches to its caller; and microbatches may count by their targets."""
    program = cleave.export_spec(dataclasses.replace(MODELS["gpt_untied"](), **changes), tmp_path)
    part = opt(program, tmp_path / "part.mlir", SYNC).read_text()
    for edit, expected in [(replaced(REDUCED, BACK), "unknown"), (ERRORS["averaged"][0], "refuted")]:
        changed = tmp_path / "changed.mlir"
        changed.write_text(edit(part))
        answer = prove(program, changed, runs=True)
        assert answer["answer"] == expected, answer
        assert answer["execution"]["update"] == ("optimizer" not in changes) and answer["execution"]["values"] > 20


def test_what_is_printed(programs, model, build_dir, tmp_path):  # noqa: F811
    """With the ranks, and inputs and states with which cleave-run shows the difference again."""
    whole, part = programs("gpt_untied", SYNC)
    wrong, inputs = tmp_path / "wrong.mlir", tmp_path / "inputs.safetensors"
    wrong.write_text(ERRORS["dropped"][0](part.read_text()))
    made = subprocess.run(
        [build_dir / "bin" / "cleave-prove", whole, wrong, f"--counterexample={inputs}"],
        capture_output=True, text=True, timeout=300, env=ENVIRONMENT,
    )  # fmt: skip
    assert made.returncode == 1
    first = made.stdout.splitlines()[0]
    assert re.fullmatch(r"refuted: on random inputs, in float64, on 3 ranks with 2 microbatches each, 3 of \d+ values differ", first)
    shown = re.search(r"^  (optim\.\S+\.exp_avg) at \[[\d, ]+\] on rank (\d) is (\S+), expected (\S+)$", made.stdout, re.MULTILINE)
    name, rank, found, expected = shown.groups()
    assert found != expected
    assert re.search(r"first op without a counterpart: 'train.adamw' at \S+:\d+\n", made.stdout)
    again = subprocess.run(
        [build_dir / "bin" / "cleave-run", wrong, "--ranks", "3", "--ranks-as", "threads", "--against", whole,
         "--weights", model("gpt_untied").weights, "--inputs", inputs, "--whole-step", "2", "--microbatches", "2",
         "--states", inputs.with_suffix(".states.safetensors"), "--tolerance", "1e-6"],
        capture_output=True, text=True, timeout=300, env=ENVIRONMENT,
    )  # fmt: skip
    assert again.returncode == 1
    line = rf"^{re.escape(name)} .*ABOVE TOLERANCE at \[[\d, ]+\] on rank {rank}: "
    assert re.search(line, again.stdout, re.MULTILINE), again.stdout


@pytest.mark.parametrize(
    "options, says",
    [(["--whole-step", "1"], "--whole-step is for --against without --steps"),
     (["--against", "WHOLE", "--whole-step", "0"], "--whole-step: expected a number of at least 1, found 0"),
     (["--states", "s.safetensors"], "--states is for --whole-step"),
     (["--against", "WHOLE", "--whole-step", "1"], "--whole-step expects --inputs FILE with the microbatches of all ranks"),
     (["--against", "PART", "--whole-step", "1", "--inputs", "x"], "expects a program for one device after --against, found a mesh"),
     (["--against", "WHOLE", "--whole-step", "1", "--inputs", "x", "--states", "none"], "none")],
)  # fmt: skip
def test_refused_steps(programs, model, build_dir, options, says):  # noqa: F811
    whole, part = programs("gpt_untied", SYNC)
    options = [{"WHOLE": whole, "PART": part}.get(option, option) for option in options]
    made = subprocess.run(
        [build_dir / "bin" / "cleave-run", part, "--weights", model("gpt_untied").weights, *options], capture_output=True, text=True, timeout=120
    )
    assert made.returncode == 1 and says in made.stderr and made.stderr.count("error:") == 1, made.stderr
