"""Several programs train one model in one run, such as one for each length of sequences: --also."""

import copy
import functools

import cleave
import pytest
import torch
import training
from cleave import FSDP, Plan, testing
from cleave.data import permute
from torch import nn
from torch.optim import swa_utils

SEED, STEPS = 4, 8


class Model(nn.Module):
    """Tied weights, dropout, a table for each length, a buffer in state dicts and one that is not."""

    def __init__(self, length, width=8, counts=True):
        super().__init__()
        self.counts = counts
        self.embed, self.mix = nn.Embedding(16, width), nn.Linear(width, width)
        self.head, self.drop = nn.Linear(width, 16, bias=False), nn.Dropout(0.1)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.linspace(0, 1, length)[:, None].expand(length, width).clone(),
                             persistent=False)  # fmt: skip
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("pace", torch.ones(()), persistent=False)

    def forward(self, tokens):
        if self.counts:
            self.seen.add_(1)
            self.pace.mul_(0.9)
        return self.head(self.drop(torch.tanh(self.mix(self.embed(tokens) * self.pace + self.table))))


def loss(out, target):
    return nn.functional.cross_entropy(out.flatten(0, 1), target.flatten())


def make_spec(length, rows=2, width=8, optimizer=torch.optim.AdamW, double=False, drop=None, counts=True, ema=None,
              gain=1):  # fmt: skip
    torch.manual_seed(1)
    module = Model(length, width, counts)
    if drop is not None:
        module.drop.p = drop
    if double:
        module = module.double()
    tokens = torch.randint(16, (rows, length))
    return cleave.ExportSpec(
        module, (tokens,), targets=(tokens.clone(),), loss=lambda out, target: gain * loss(out, target),
        optimizer=optimizer(module.parameters(), lr=1e-2),
        lr_schedule=cleave.WarmupCosine(2, STEPS, 0.1), name=f"model{length}", ema=ema,
    )  # fmt: skip


class Subject:
    """Programs for three lengths, and data for each."""

    def __init__(self, folder, **options):
        self.specs = [make_spec(length, **options) for length in (6, 4, 9)]
        self.programs = [cleave.export_spec(spec, folder) for spec in self.specs]
        self.batches = [training.random_batches(spec, STEPS, 2, seed) for seed, spec in enumerate(self.specs)]
        self.data = [f"safetensors:{training.save_batches(spec, batches, folder / f'data{i}.safetensors')}"
                     for i, (spec, batches) in enumerate(zip(self.specs, self.batches))]  # fmt: skip

    def also(self, number, *more, programs=None):
        return ["--also", " ".join([str((programs or self.programs)[number]), f"data={self.data[number]}", *map(str, more)])]

    def options(self, *more, steps=STEPS, program=None, microbatches=2):
        return [program or self.programs[0], "--data", self.data[0], "--steps", steps, "--microbatches", microbatches,
                "--threads", 1, "--seed", SEED, *more]  # fmt: skip


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    return Subject(tmp_path_factory.mktemp("lengths"))


def train_in_turns(subject, turns, scaler=None, averaged=None, changed=None):
    """What PyTorch makes of the same steps: one optimizer, one generator, and a module for each length that shares all
    but its table. averaged: makes an AveragedModel of the module. changed: the turns of a run that goes on with other
    data, from `turns` on, and these; what it reads and draws is what it would if all of its turns had been the new ones."""
    run = testing._Run(subject.specs[0])
    (optimizer,) = run.make_optimizers()
    module = run.module
    schedule, base = subject.specs[0].lr_schedule, optimizer.param_groups[0]["lr"]
    averaged = averaged and averaged(module)
    torch.manual_seed(SEED)
    taken, updates, losses = [0] * len(subject.specs), 0, []
    before = []
    if changed is not None:
        before, turns = turns, turns + changed[0][len(turns) :]
    for step, number in enumerate(turns):
        if changed is not None and step == len(before):
            subject = changed[1]
            taken = [changed[0][:step].count(i) for i in range(len(taken))]
            torch.manual_seed(SEED)
            for each in changed[0][:step]:
                for _ in range(2):
                    module.drop(torch.ones(*subject.specs[each].args[0].shape, 8))
        spec = subject.specs[number]
        module.table = spec.module.table
        optimizer.zero_grad()
        total = []
        for part in testing.split_batch(spec, subject.batches[number][taken[number]], 2):
            tokens, target = part.values()
            total.append(spec.loss(module(tokens), target))
            scaled = scaler.scale(total[-1]) if scaler else total[-1]
            scaled.backward(torch.full_like(scaled, 0.5))
        taken[number] += 1
        for group in optimizer.param_groups:
            group["lr"] = base * schedule.factor(updates + 1)
        if run.step([optimizer], scaler):
            updates += 1
            if averaged:
                averaged.module.table = module.table  # which it would copy to
                averaged.update_parameters(module)
        losses.append(sum(each.item() for each in total) / 2)
    if averaged:
        for parameter, mean in zip(module.parameters(), averaged.module.parameters()):
            optimizer.state[parameter]["ema"] = mean
    return losses, module, optimizer


def expect_run(found, folder, expected):
    losses, module, optimizer = expected
    assert found == losses
    state = training.checkpoint_group(training.newest_checkpoint(folder))
    for name, tensor in module.state_dict().items():
        assert torch.equal(state[name], tensor), name
    moments = training.checkpoint_group(training.newest_checkpoint(folder), "optimizer")
    assert torch.equal(moments["buffer.pace"], module.pace)
    for name, parameter in module.named_parameters():
        for slot, value in optimizer.state[parameter].items():
            assert slot == "step" or torch.equal(moments[f"{name}.{slot}"], value), name


GROWTH = [0, 0, 0, 1, 1, 2, 2, 2]


def shares(counts, block):
    """The programs of the first steps, as docs/run.md says."""
    places = [permute(step % block, block, SEED, step // block) for step in range(STEPS)]
    return [next(i for i in range(len(counts)) if place < sum(counts[: i + 1])) for place in places]


RULES = {
    "growth": (lambda s: [*s.also(1, "from=4"), *s.also(2, "from=6")], GROWTH),
    "shares": (lambda s: [*s.also(1, "share=0.4"), *s.also(2, "share=0.25")], shares([350, 400, 250], 1000)),
    "data": (lambda s: [*s.also(1), *s.also(2)], shares([STEPS] * 3, 3 * STEPS)),
}


@pytest.mark.parametrize("rule", RULES)
def test_steps_are_those_of_one_module_bit_for_bit(build_dir, tmp_path, subject, rule):
    """Dropout's numbers included: they go on from program to program."""
    also, turns = RULES[rule]
    assert len(set(turns)) == 3, turns
    output = training.train(build_dir, *subject.options(*also(subject)), "--checkpoint", tmp_path / "run", "--metrics",
                            tmp_path / "m")  # fmt: skip
    rows = training.read_metrics(tmp_path / "m")
    assert [row["program"] for row in rows] == [("model6", "model4", "model9")[number] for number in turns]
    expect_run([row["loss"] for row in rows], tmp_path / "run", train_in_turns(subject, turns))
    assert "programs take turns" in output and output.count("microbatches of 2") == 3

    # Stopped in the middle of a program's turns, it goes on as if it had not been.
    for steps in (2, 5, STEPS):
        training.train(build_dir, *subject.options(*also(subject), steps=steps), "--checkpoint", tmp_path / "parts",
                       "--resume", "--metrics", tmp_path / "p")  # fmt: skip
    assert [(row["loss"], row["program"], row["lr"]) for row in training.read_metrics(tmp_path / "p")] == [
        (row["loss"], row["program"], row["lr"]) for row in rows
    ]


# Gradients of f32 overflow in the first steps, and where the scale has grown.
SCALE = {"init_scale": 1e38, "growth_factor": 16.0, "backoff_factor": 0.125, "growth_interval": 2}


def scale_programs(build_dir, folder, subject, **options):
    """The programs with scaled losses."""
    programs = []
    passes = " ".join(f"{name.replace('_', '-')}={value}" for name, value in (SCALE | options).items())
    for program in subject.programs:
        programs.append(folder / program.name)
        training.optimize(build_dir, program, f"--scale-loss={passes}", "-o", programs[-1])
        programs[-1].with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    return programs


def test_scaled_losses_and_averages_bit_for_bit(build_dir, tmp_path):
    """One scale, one count of skipped steps and one average of each parameter, whichever program's turn it is."""
    subject = Subject(tmp_path, ema=cleave.EMA(0.8), gain=64)
    folder = tmp_path / "scaled"
    folder.mkdir()
    programs = scale_programs(build_dir, folder, subject)
    also = [*subject.also(1, "from=4", programs=programs), *subject.also(2, "from=6", programs=programs)]
    for steps in (2, 5, STEPS):
        training.train(build_dir, *subject.options(*also, steps=steps, program=programs[0]), "--checkpoint", tmp_path / "run",
                       "--resume", "--metrics", tmp_path / "m")  # fmt: skip
    scaler = torch.amp.GradScaler("cpu", **SCALE)
    averaged = functools.partial(swa_utils.AveragedModel, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.8))
    expected = train_in_turns(subject, GROWTH, scaler, averaged)
    rows = training.read_metrics(tmp_path / "m")
    assert 1 < rows[-1]["skipped_steps"] < STEPS - 3
    assert any(row["skipped_steps"] > before["skipped_steps"] for before, row in zip(rows[3:], rows[4:]))
    expect_run([row["loss"] for row in rows], tmp_path / "run", expected)


def test_programs_that_scale_their_losses_differently(build_dir, tmp_path, subject, refuse):
    other = scale_programs(build_dir, tmp_path, subject)
    assert "only one of them scales its loss (--scale-loss)" in refuse(*subject.also(1, "from=3", programs=other))
    folder = tmp_path / "others"
    folder.mkdir()
    slower = scale_programs(build_dir, folder, subject, growth_interval=4)
    result = training.run(build_dir, *subject.options(*subject.also(1, "from=3", programs=slower), program=other[0]))
    assert result.returncode == 1 and "it scales its loss by another rule (--scale-loss)" in result.stderr


FORMS = {
    "lowered": (None, ["--lower-to-exec"], []),
    "dp2": (None, ["--sync-gradients=axis=dp", "--bucket-gradients"], ["--ranks", 2]),
    "fsdp2": (Plan({"dp": 2}, {"": FSDP("dp")}), ["--propagate-placements", "--partition"], ["--ranks", 2]),
    "1f1b": (None, ["--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=2",
                    "--insert-p2p"], ["--ranks", 2]),
}  # fmt: skip


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    return Subject(tmp_path_factory.mktemp("double"), double=True, drop=0.0, counts=False)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_the_programs(build_dir, tmp_path, double, form):
    """Each rank has its part of the state, whichever program's turn it is. (Buffers that forward changes would be
    local to a rank.)"""
    plan, passes, options = FORMS[form]
    if plan:
        plan.write(tmp_path / "plan.json")
        passes = [f"--annotate-placements=plan={tmp_path / 'plan.json'}", *passes]
    programs = []
    for program in double.programs:
        programs.append(tmp_path / program.name)
        training.optimize(build_dir, program, *passes, "-o", programs[-1])
        programs[-1].with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    also = [*double.also(1, "from=4", programs=programs), *double.also(2, "from=6", programs=programs)]
    run = double.options(*also, program=programs[0], microbatches=1 if form == "dp2" else 2)
    training.train(build_dir, *run, *options, "--metrics", tmp_path / "m", "--checkpoint", tmp_path / "run")
    losses, module, _ = train_in_turns(double, GROWTH)
    assert training.losses(tmp_path / "m") == pytest.approx(losses, rel=1e-10)
    state = training.checkpoint_group(training.newest_checkpoint(tmp_path / "run"))
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-9, atol=1e-12)
    # On one rank it goes on.
    training.train(build_dir, *double.options(*double.also(1, "from=4"), *double.also(2, "from=6"), steps=STEPS + 1),
                   "--checkpoint", tmp_path / "run", "--resume")  # fmt: skip


def test_each_has_its_batch_and_others_its_data(build_dir, tmp_path, subject):
    """Tokens of one source, in batches of as many tokens."""
    text = "text:/usr/share/common-licenses/GPL-3"
    (tmp_path / "t.u16").write_bytes(torch.randint(16, (4000,), dtype=torch.int16).numpy().tobytes())
    data = f"u16:{tmp_path / 't.u16'}"
    also = f"{subject.programs[1]} from=3 batch=6"
    output = training.train(build_dir, subject.programs[0], "--data", data, "--steps", 4, "--batch", 4, "--also", also,
                            "--metrics", tmp_path / "m", "--threads", 1)  # fmt: skip
    assert "1 rank x 2 microbatches of 2" in output and "1 rank x 3 microbatches of 2" in output
    assert "windows of 6" in output and "windows of 4" in output
    assert len(training.losses(tmp_path / "m")) == 4
    result = training.run(build_dir, subject.programs[0], "--data", text, "--steps", 4, "--also", also)
    assert result.returncode == 1 and "is outside the vocabulary of 16" in result.stderr


# Errors.


@pytest.fixture
def refuse(build_dir, subject, tmp_path):
    def run(*more, status=1):
        result = training.run(build_dir, *subject.options("--metrics", tmp_path / "none", *more))
        assert result.returncode == status and result.stderr.count("error: ") == 1, result.stderr
        assert not (tmp_path / "none").exists()
        return result.stderr

    return run


OTHERS = {
    "width": ({"width": 4}, ["'param.embed.weight': F32 [16, 4], in ", "model6.mlir F32 [16, 8]"]),
    "optimizer": ({"optimizer": torch.optim.Adagrad}, ["'optim.embed.weight.sum': is not in ",
                                                       "'optim.embed.weight.exp_avg': is only in "]),
    "type": ({"double": True}, ["'param.mix.bias': F64 [8], in "]),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_programs_of_another_state(tmp_path, subject, refuse, case):
    options, messages = OTHERS[case]
    program = cleave.export_spec(make_spec(4, **options), tmp_path)
    message = refuse("--also", f"{program} from=4 data={subject.data[1]}")
    assert f"{program}: expected the parameters, buffers and optimizer state of {subject.programs[0]}:" in message
    for part in messages:
        assert part in message, message


def test_options_are_checked(tmp_path, subject, refuse):
    assert "a step after the first" in refuse(*subject.also(1, "from=1"))
    assert "expected from= for all programs, or share= for all" in refuse(*subject.also(1, "from=3"), *subject.also(2, "share=0.5"))
    assert "nowhere.mlir" in refuse("--also", f"{tmp_path}/nowhere.mlir from=3")
    assert "--against compares two programs: expected it without --also" in refuse(
        *subject.also(1, "from=3"), "--against", subject.programs[0])  # fmt: skip
    forward = cleave.export_spec(cleave.ExportSpec(Model(4), (torch.ones(2, 4, dtype=torch.int64),), mode="forward", name="f"), tmp_path)
    assert "f.mlir: expected a program with an update function, found none" in refuse("--also", f"{forward} from=3")
    # Data of another length.
    assert "data0.safetensors" in refuse("--also", f"{subject.programs[1]} from=3")


def test_a_run_is_continued_with_the_same_programs(build_dir, tmp_path, subject, refuse):
    run = ["--checkpoint", tmp_path / "run", "--resume"]
    training.train(build_dir, *subject.options(*run, *subject.also(1, "from=3"), steps=4))
    for other in ([], subject.also(1, "from=4"), subject.also(2, "from=3"), subject.also(1, "from=3", "microbatches=1")):
        assert "different data or a different order" in refuse(*run, *other)


def test_a_run_is_continued_with_other_programs_and_data(build_dir, tmp_path, subject):
    """--continue-with=data: what is read and drawn is as if all steps had been the new programs'. State is what it was."""
    other = copy.copy(subject)
    other.batches = [training.random_batches(spec, STEPS, 2, 10 + seed) for seed, spec in enumerate(subject.specs)]
    other.data = [f"safetensors:{training.save_batches(spec, batches, tmp_path / f'{i}.safetensors')}"
                  for i, (spec, batches) in enumerate(zip(subject.specs, other.batches))]  # fmt: skip
    run = ["--checkpoint", tmp_path / "run", "--metrics", tmp_path / "m", "--resume"]
    training.train(build_dir, *subject.options(*run, *subject.also(1, "from=3"), steps=4))
    also = [*run, *other.also(2, "from=6")]
    training.train(build_dir, *other.options(*also, steps=5), "--continue-with=data")
    # Which is the run's from then on.
    training.train(build_dir, *other.options(*also))
    expected = train_in_turns(subject, [0, 0, 1, 1], changed=([0] * 5 + [2] * 3, other))
    rows = training.read_metrics(tmp_path / "m")
    assert [row["program"] for row in rows] == ["model6"] * 2 + ["model4"] * 2 + ["model6"] + ["model9"] * 3
    expect_run([row["loss"] for row in rows], tmp_path / "run", expected)
