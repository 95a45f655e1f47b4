"""Data parallelism by roles alone (`--sync-gradients`): what each rank makes of microbatches of its own is proved to be a step of one
device with all of them, for any number of ranks; programs with errors are not."""

import dataclasses
import random
import re
import subprocess

import cleave
import pytest
import torch
from combinations_cover import covered, seed
from exported_models import MODELS
from training import ENVIRONMENT

SYNC = "--sync-gradients=axis=dp"
BUCKETS = "--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.005"
CLIP = "--clip-gradients=max-norm=0.05"
SCALE = "--scale-loss"
CHANGES = (CLIP, SCALE)
STAGES = ("--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=4", "--insert-p2p",
          "--verify-schedule")  # fmt: skip
ZERO_BUBBLE = ("--outline-stages=count=4 balance=cost", "--split-backward", SYNC, BUCKETS, CLIP,
               "--build-schedule=schedule=zbv ranks=2 microbatches=4", "--insert-p2p", "--verify-schedule")  # fmt: skip


@pytest.fixture(scope="module")
def opt(build_dir):
    def run(source, output, *passes):
        made = subprocess.run(
            [build_dir / "bin" / "cleave-opt", source, *passes, "--mlir-print-debuginfo", "-o", output],
            capture_output=True, text=True, env=ENVIRONMENT, timeout=120,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        return output

    return run


@pytest.fixture(scope="module")
def check(build_dir):
    """The status of `cleave-check-proof` for the log of a proof, and what it says."""

    def run(whole, part, *options, assumed=()):
        log = part.with_suffix(".proof")
        subprocess.run(
            [build_dir / "bin" / "cleave-prove", whole, part, "--execute=false", f"--log={log}", *options],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        made = subprocess.run(
            [build_dir / "bin" / "cleave-check-proof", whole, part, log, *assumed], capture_output=True, text=True, timeout=120
        )
        return made.returncode, made.stdout

    return run


@pytest.fixture(scope="module")
def programs(opt, model):
    """A model with what changes the step on purpose, and what ranks run of it, made once."""
    made = {}

    def get(name, *passes):
        if (name, passes) not in made:
            program = model(name).program
            stem = f"{name}.{len(made)}"
            changes = [each for each in passes if each in CHANGES]
            whole = opt(program, program.with_name(f"{stem}.whole.mlir"), *changes) if changes else program
            made[name, passes] = whole, opt(program, program.with_name(f"{stem}.part.mlir"), *passes)
        return made[name, passes]

    return get


def assert_proved(answer, least=50):
    assert answer["answer"] == "proved", (answer["findings"][:3], answer.get("reason"))
    assert answer["results"] >= least


@covered(
    {
        "name": ["gpt_untied", "gpt_tied", "llama", "moe"],
        "passes": {
            "sync": (SYNC,), "three ranks": (f"{SYNC} size=3",), "buckets": (SYNC, BUCKETS), "clipped": (SYNC, BUCKETS, CLIP),
            "scaled": (SYNC, BUCKETS, SCALE, CLIP), "parts": (SYNC, "--partition-joint"), "1f1b": (SYNC, *STAGES),
            "zbv": ZERO_BUBBLE, "scaled 1f1b": (STAGES[0], SYNC, BUCKETS, SCALE, CLIP, *STAGES[1:]),
        },
    },
    strength=1,
)  # fmt: skip
def test_models(programs, prove, name, passes):
    whole, part = programs(name, *passes)
    assert '"dp" = ' in part.read_text() and 'over ["dp"]' in part.read_text()
    assert_proved(prove(whole, part))


@pytest.mark.parametrize("name", ["gpt_dropout", "minilm", "gpt_checkpointed"])
def test_draws(programs, prove, name):
    """A rank's microbatch draws what it draws on one device."""
    assert_proved(prove(*programs(name, SYNC, BUCKETS)))


def test_two_axes(programs, opt, prove, tmp_path):
    """Inputs are divided over both, one after the other."""
    whole, part = programs("gpt_untied", "--sync-gradients=axis=dp size=2")
    mesh = tmp_path / "mesh.mlir"
    mesh.write_text(part.read_text().replace('["dp" = 2]', '["dp" = 2, "ep" = 3]'))
    both = opt(mesh, tmp_path / "both.mlir", "--sync-gradients=axis=ep")
    assert 'over ["dp", "ep"]' in both.read_text()
    assert_proved(prove(whole, both))
    # Ranks along an axis that divides nothing do the same.
    assert_proved(prove(whole, mesh))


def test_targets_count_the_same(opt, prove, tmp_path):
    """A microbatch's share of the step's targets is what it is on one device."""
    spec = dataclasses.replace(MODELS["gpt_untied"](), mean_over="targets")
    program = cleave.export_spec(spec, tmp_path)
    assert_proved(prove(program, opt(program, tmp_path / "part.mlir", SYNC, BUCKETS)))


def test_optimizer_of_the_caller(opt, prove, tmp_path):
    """Ranks add gradients up and return their sums, which one device leaves to the caller."""
    program = cleave.export_spec(dataclasses.replace(MODELS["gpt_untied"](), optimizer=None), tmp_path)
    for number, passes in enumerate([(SYNC,), (SYNC, BUCKETS)]):
        part = opt(program, tmp_path / f"{number}.mlir", *passes)
        assert "phase<reduce>" in part.read_text()
        assert_proved(prove(program, part), 25)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.NAdam])
def test_optimizers(opt, prove, tmp_path, optimizer):
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    rate = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    program = cleave.export(
        module, (torch.randn(4, 8),), loss=torch.nn.functional.mse_loss, targets=(torch.randn(4, 4),),
        optimizer=optimizer(module.parameters(), lr=0.01, **rate), out=tmp_path,
    )  # fmt: skip
    assert_proved(prove(program, opt(program, tmp_path / "part.mlir", SYNC, BUCKETS)), 9)


def test_buffers_of_ranks(programs, prove, build_dir):
    """Statistics of batches are each rank's own, which the answer says; gradients do not depend on them."""
    whole, part = programs("resnet18", SYNC, BUCKETS)
    answer = prove(whole, part)
    assert answer["answer"] == "unknown"
    found = {finding["result"] for finding in answer["findings"]}
    assert found and all(result.startswith("buffer ") for result in found)
    assert all("--assume=own-buffers" in finding["relation"] for finding in answer["findings"])
    answer = prove(whole, part, "--assume=own-buffers")
    assert_proved(answer)
    assert answer["assumptions"] == ["own-buffers"]
    text = subprocess.run(
        [build_dir / "bin" / "cleave-prove", whole, part, "--execute=false", "--assume=own-buffers"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert text.stdout.strip().endswith("results, if buffers may be each rank's own, of the microbatches that it runs")


class Centered(torch.nn.Module):
    """Takes off what the microbatches before had on average."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        y = self.linear(x - self.mean)
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return y


def test_state_that_a_loss_depends_on(opt, prove, tmp_path):
    """A rank's microbatch follows others than on one device."""
    module = Centered()
    program = cleave.export(
        module, (torch.randn(4, 8),), loss=torch.nn.functional.mse_loss, targets=(torch.randn(4, 4),),
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1), out=tmp_path,
    )  # fmt: skip
    answer = prove(program, opt(program, tmp_path / "part.mlir", SYNC), "--assume=own-buffers")
    assert answer["answer"] == "unknown"
    assert {"loss", "gradients"} <= {finding["result"] for finding in answer["findings"]}
    assert all("depends on the microbatches before" in f["relation"] or "depend on" in f["relation"] for f in answer["findings"])


@covered(
    {
        "name": ["gpt_untied", "llama", "moe"],
        "passes": {"sync": (SYNC,), "three ranks": (f"{SYNC} size=3",), "parts": (SYNC, "--partition-joint")},
    },
    strength=1,
)  # fmt: skip
def test_checked(programs, check, name, passes):
    """The second program reads roles by itself."""
    status, said = check(*programs(name, *passes))
    assert status == (2 if name == "moe" else 0), said
    assert set(re.findall(r"^trusted: (\w+) of", said, re.MULTILINE)) == ({"lookup"} if name == "moe" else set())


def test_checked_of_the_caller(opt, check, tmp_path):
    program = cleave.export_spec(dataclasses.replace(MODELS["gpt_untied"](), optimizer=None), tmp_path)
    assert check(program, opt(program, tmp_path / "part.mlir", SYNC))[0] == 0


def test_checked_buffers(programs, check):
    whole, part = programs("resnet18", SYNC)
    status, said = check(whole, part, "--assume=own-buffers", assumed=["--assume-own-buffers"])
    assert status == 2 and set(re.findall(r"^trusted: (\w+) of", said, re.MULTILINE)) == {"statistics"}
    assert "assumed: buffers may be each rank's own" in said
    status, said = check(whole, part, "--assume=own-buffers")
    assert status == 1 and "depends on other microbatches" in said


# Errors.


def replaced(old, new):
    """An edit of one of the places that match, by the run's seed."""

    def edit(text):
        match = random.Random(f"{seed()} {new}").choice(list(re.finditer(old, text)))
        return text[: match.start()] + match.expand(new) + text[match.end() :]

    return edit


REDUCED = r"(%\w+) = dist\.all_reduce sum\((%\w+)\) over @mesh \[\"dp\"\]( : (tensor<[^>]*>).*)"
AGAIN = r'\1 = dist.all_reduce sum(%again) over @mesh ["dp"]\3'
FIRST = r'%again = dist.all_reduce sum(\2) over @mesh ["dp"]\3\n    '
HALF = r"%half = aten.mul_scalar(\2, other = 0.5) : (\4) -> \4\n    "


ADDED = r"(%\w+) = train\.accumulate (%\w+) into (%\w+) : (tensor<[^>]*>)"


# Each with the op that is named, and what it is or takes, or with what change it would be right.
ERRORS = {
    "dropped": (replaced(REDUCED, r"\1 = aten.alias(\2) : (\4) -> \4"), "train.adamw", "a rank's term of the sum over 'dp'"),
    "doubled": (replaced(REDUCED, FIRST + AGAIN), "dist.all_reduce", "{n} times the expected value"),
    "averaged": (
        replaced(REDUCED, r'\1 = dist.all_reduce avg(\2) over @mesh ["dp"]\3'), "dist.all_reduce", "1/{n} times the expected value",
    ),
    "halved": (
        replaced(REDUCED, HALF + r'\1 = dist.all_reduce sum(%half) over @mesh ["dp"]\3'), "aten.mul_scalar",
        "1/2 times the expected value",
    ),
    "greatest": (
        replaced(REDUCED, r'\1 = dist.all_reduce max(\2) over @mesh ["dp"]\3'), "dist.all_reduce",
        "with reduction = #dist.reduction<sum>",
    ),
    "another axis": (
        lambda text: replaced(REDUCED, r'\1 = dist.all_reduce sum(\2) over @mesh ["tp"]\3')(
            re.sub(r'\["dp" = (\S+)\]', r'["dp" = \1, "tp" = 2]', text)
        ),
        "dist.all_reduce", 'with axes = ["dp"]',
    ),
    "another gradient": (
        lambda text: re.sub(
            r"(dist\.all_reduce sum\()%\w+(\).* : tensor<32xf32>[^\n]*\n(?:.*\n)*?.*dist\.all_reduce sum\()(%\w+)(\).* : tensor<32xf32>)",
            r"\1\3\2\3\4", text, count=1,
        ),
        "dist.all_reduce", "as operand 0",
    ),
    "averaged over microbatches again": (
        replaced(ADDED, r"%half = aten.mul_scalar(\2, other = 0.5) : (\4) -> \4\n    \1 = train.accumulate %half into \3 : \4"),
        "aten.mul_scalar", "1/2 times the expected value",
    ),
    "not added up": (replaced(ADDED, r"\1 = aten.alias(\2) : (\4) -> \4"), "aten.alias", ""),
    "reduced in each microbatch": (
        replaced(ADDED, r'%all = dist.all_reduce sum(\2) over @mesh ["dp"] : \4\n    \1 = train.accumulate %all into \3 : \4'),
        "dist.all_reduce", "",
    ),
}  # fmt: skip


@covered({"error": list(ERRORS), "size": ["?", "3"]}, strength=1)
def test_errors(programs, prove, opt, tmp_path, error, size):
    whole, part = programs("gpt_untied", SYNC if size == "?" else f"{SYNC} size={size}")
    edit, op, said = ERRORS[error]
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(edit(part.read_text()))
    opt(wrong, tmp_path / "read.mlir")
    answer = prove(whole, wrong, runs=True)
    assert answer["answer"] == "refuted", answer
    # A parameter and both of its states, or one gradient.
    assert len(answer["findings"]) in (1, 3)
    for finding in answer["findings"]:
        assert finding["op"] == op
        assert said.format(n="n" if size == "?" else size) in finding.get("operand", "") + finding.get("repair", "")
    run = answer["execution"]
    assert (run["ranks"], run["own_microbatches"], run["float64"], run["update"]) == (6 if error == "another axis" else 3, 2, True, True)
    # A parameter, its gradient and its states.
    names = {re.sub(r"^(param|grad|optim)\.|\.exp_avg(_sq)?$", "", example["name"]) for example in run["counterexamples"]}
    assert len(names) == 1 and run["values"] > 80
    assert all(example["local"] != example["global"] for example in run["counterexamples"])


def test_inputs_that_do_not_belong_together(programs, prove, tmp_path):
    whole, part = programs("gpt_untied", SYNC)
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(part.read_text().replace(' over ["dp"]>', ">", 1))
    answer = prove(whole, wrong)
    assert answer["answer"] == "unknown"
    assert answer["reason"] == (
        "'input tokens' and 'target targets' are divided over other axes of the mesh: their examples do not belong together"
    )
    # Nor is what a rank has of a batch the program of one device.
    answer = prove(part, part)
    assert answer["reason"] == "the inputs of the program of one device are divided over ranks"


def test_loss_of_all_ranks(programs, prove, tmp_path):
    """A rank's loss is that of its own microbatch."""
    whole, part = programs("gpt_untied", SYNC)
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(
        re.sub(r"^( *)return (%\w+)(, .* : )tensor<f32>,", r'\1%all = dist.all_reduce avg(\2) over @mesh ["dp"] : tensor<f32>\n'
               r"\1return %all\3tensor<f32>,", part.read_text(), count=1, flags=re.MULTILINE)
    )  # fmt: skip
    assert "%all" in wrong.read_text()
    answer = prove(whole, wrong)
    assert [finding["result"] for finding in answer["findings"]] == ["loss"]


def reduce_again(text):
    """Sums a member again that its bucket has summed."""
    update = text.index("func.func @update")
    waited = re.search(r"^ *(%\w+)(?:, %\w+|:\d+)* = train\.wait_bucket .* -> (tensor<[^>]*>).*\n", text[update:], re.MULTILINE)
    name = waited[1] + ("#0" if ":" in waited[0].split("=")[0] else "")
    at = update + waited.end()
    rest = re.sub(re.escape(name) + r"\b", "%again", text[at:])
    return text[:at] + f'    %again = dist.all_reduce sum({name}) over @mesh ["dp"] : {waited[2]}\n' + rest


def reduce_too_early(text):
    """Moves the start of a bucket's sum before the last contribution to it."""
    found = re.search(r"^( *(%\w+) = train\.contribute .*? in (%\w+) : .*\n)((?:.*\n)*?)( *(%\w+) = train\.reduce_bucket \2 : (.*)\n)",
                      text, re.MULTILINE)  # fmt: skip
    contribute, value, before, between, reduce, result, type_ = found.groups()
    early = reduce.replace(f"reduce_bucket {value} ", f"reduce_bucket {before} ").replace(f"{result} =", "%early =")
    late = contribute.replace(f" in {before} ", " in %early ").replace(f"{value} =", f"{result} =")
    return text[: found.start()] + early + between + late + text[found.end() :]


@pytest.mark.parametrize("edit", [reduce_again, reduce_too_early, lambda text: re.sub(r'(train\.bucket.*) over @mesh \["dp"\]', r"\1", text, count=1)],
                         ids=["again", "early", "never"])  # fmt: skip
def test_errors_of_buckets(programs, prove, tmp_path, edit):
    whole, part = programs("gpt_untied", SYNC, BUCKETS)
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(edit(part.read_text()))
    assert wrong.read_text() != part.read_text()
    answer = prove(whole, wrong, runs=True)
    assert answer["findings"]
    if edit is reduce_too_early:
        # A run of it ends with an error.
        assert answer["answer"] == "unknown" and "needs a new step" in answer["execution"]["not_run"]
    else:
        assert answer["answer"] == "refuted" and answer["execution"]["update"]
