"""`mean_over="targets"`: a step's loss and gradients are those of one large batch, however its targets, of which the
loss ignores some, lie on microbatches and ranks."""

import copy

import cleave
import pytest
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

VOCABULARY, LENGTH, ROWS, PARTS, STEPS = 12, 6, 4, 4, 3
IGNORED = -100


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, 8), nn.Linear(8, VOCABULARY)

    def forward(self, tokens):
        return self.head(torch.tanh(self.hidden(torch.tanh(self.embed(tokens)))))


def flat_loss(logits, target):
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def next_token_loss(logits, labels):
    """As Hugging Face's models have it: the first label is no target."""
    shifted = functional.pad(labels, (0, 1), value=IGNORED)[..., 1:].contiguous()
    return functional.cross_entropy(logits.view(-1, VOCABULARY), shifted.view(-1))


def smoothed_loss(logits, target):
    return functional.cross_entropy(logits.transpose(1, 2), target, label_smoothing=0.1)


def make_spec(loss=flat_loss, **options):
    torch.manual_seed(0)
    module = Tagger().double()
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
    options = {"optimizer": optimizer, "mean_over": "targets"} | options
    return cleave.ExportSpec(module, (tokens,), targets=(tokens.clone(),), loss=loss, name="tagger", **options)


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    spec = make_spec()
    return spec, cleave.export_spec(spec, tmp_path_factory.mktemp("tagger"))


@pytest.fixture(scope="module")
def batches():
    """The rows of each step: a microbatch of which all targets count, one without any, others with few or many."""
    generator = torch.Generator().manual_seed(3)
    steps = []
    for _ in range(STEPS):
        tokens, target = (torch.randint(VOCABULARY, (PARTS * ROWS, LENGTH), generator=generator) for _ in range(2))
        for part, rate in enumerate((0.0, 0.9, 1.0, 0.4)):
            rows = slice(part * ROWS, (part + 1) * ROWS)
            target[rows][torch.rand(ROWS, LENGTH, generator=generator) < rate] = IGNORED
        steps.append((tokens, target))
    return steps


def save(spec, steps, path):
    names = [source.name for source in cleave.testing.Signature(spec).inputs]
    save_file({n: torch.cat(values) for n, values in zip(names, zip(*steps))}, path)
    return f"safetensors:{path}"


def train_in_one_batch(spec, steps):
    """PyTorch's losses, and the parameters at the end."""
    module, optimizer = copy.deepcopy((spec.module, spec.optimizer))
    losses = []
    for tokens, target in steps:
        loss = spec.loss(module(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, dict(module.named_parameters())


PIPELINE = ["--outline-stages=count=2 balance=cost"]
FORMS = {
    "accumulation": ([], ["--microbatches", 4]),
    "deferred": (["--partition-joint", "--split-backward"], ["--microbatches", 4, "--weight-gradients", "deferred"]),
    "dp2": (["--sync-gradients=axis=dp", "--bucket-gradients"], ["--ranks", 2, "--microbatches", 2]),
    "dp4": (["--sync-gradients=axis=dp"], ["--ranks", 4]),
    "1f1b": ([*PIPELINE, "--build-schedule=schedule=1f1b ranks=2 microbatches=4", "--insert-p2p"], ["--ranks", 2]),
    "zero bubble": ([*PIPELINE, "--split-backward", "--build-schedule=schedule=zb-h1 ranks=2 microbatches=4",
                     "--insert-p2p"], ["--ranks", 2]),
    "dp2 x 1f1b": (["--sync-gradients=axis=dp", *PIPELINE,
                    "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"], ["--ranks", 4]),
    "fsdp2": (["--propagate-placements", "--partition", "--split-fsdp-collectives", "--bucket-gradients"],
              ["--ranks", 2, "--microbatches", 4]),
    "vocabulary over tp2": (["--propagate-placements", "--partition"], ["--ranks", 2, "--microbatches", 4]),
    "lowered": (["--lower-to-exec"], ["--microbatches", 4]),
}  # fmt: skip
PLANS = {
    "fsdp2": Plan({"dp": 2}, {"": FSDP("dp")}),
    "vocabulary over tp2": Plan({"tp": 2}, {"head": ColwiseParallel("tp")}),
}


def make_form(build_dir, program, folder, form):
    passes, options = FORMS[form]
    if form in PLANS:
        PLANS[form].write(folder / "plan.json")
        passes = [f"--annotate-placements=plan={folder / 'plan.json'}", *passes]
    path = folder / "program.mlir"
    training.optimize(build_dir, program, *passes, "-o", path)
    path.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    return path, ["--threads", 1, *(["--ranks-as", "threads"] if "--ranks" in options else []), *options]


def check_training(build_dir, spec, program, options, steps, folder):
    losses, parameters = train_in_one_batch(spec, steps)
    training.train(build_dir, program, "--steps", STEPS, "--data", save(spec, steps, folder / "data.safetensors"),
                   "--metrics", folder / "metrics", "--checkpoint", folder / "run", "--stop-on-nan", *options)  # fmt: skip
    assert training.losses(folder / "metrics") == pytest.approx(losses, rel=1e-9)
    found = training.checkpoint_group(training.newest_checkpoint(folder / "run"))
    for name, expected in parameters.items():
        torch.testing.assert_close(found[name], expected.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_as_one_batch(build_dir, subject, batches, tmp_path, form):
    spec, program = subject
    program, options = make_form(build_dir, program, tmp_path, form)
    assert "train.mean_over = #train.targets<" in program.read_text()
    check_training(build_dir, spec, program, options, batches, tmp_path)


def test_the_oracle_counts_as_the_runtime_does(subject, batches):
    spec, _ = subject
    names = [source.name for source in cleave.testing.Signature(spec).inputs]
    found = cleave.testing.train(spec, [dict(zip(names, batch)) for batch in batches], microbatches=PARTS)
    assert found.losses == pytest.approx(train_in_one_batch(spec, batches)[0], rel=1e-9)


@pytest.mark.parametrize("loss", [next_token_loss, smoothed_loss])
def test_other_losses(build_dir, batches, tmp_path, loss):
    """Targets that are moved on their way to the loss, and a loss that ignores them in two ways."""
    spec = make_spec(loss)
    program = cleave.export_spec(spec, tmp_path)
    begin = 1 if loss is next_token_loss else 0
    assert f"except -100 from [0, {begin}] to [{ROWS}, {LENGTH}]>" in program.read_text()
    check_training(build_dir, spec, program, ["--microbatches", 4, "--threads", 1], batches, tmp_path)


def test_the_mean_over_microbatches_is_another(build_dir, batches, tmp_path):
    """The default, which is that of PyTorch's own loop: the mean of the microbatches' means."""
    spec = make_spec(mean_over="microbatches")
    program = cleave.export_spec(spec, tmp_path)
    steps = [(tokens[: 2 * ROWS], target[: 2 * ROWS]) for tokens, target in batches]
    training.train(build_dir, program, "--steps", 1, "--microbatches", 2, "--threads", 1, "--metrics", tmp_path / "m",
                   "--data", save(spec, steps, tmp_path / "data.safetensors"))  # fmt: skip
    tokens, target = steps[0]
    means = [spec.loss(spec.module(tokens[rows]), target[rows]).item() for rows in (slice(0, ROWS), slice(ROWS, None))]
    assert training.losses(tmp_path / "m") == pytest.approx([sum(means) / 2], rel=1e-12)
    assert abs(sum(means) / 2 - train_in_one_batch(spec, steps)[0][0]) > 1e-3


def test_without_ignored_targets_both_are_one(build_dir, batches, tmp_path):
    steps = [(tokens, tokens) for tokens, _ in batches]
    losses = []
    for mean_over in ("targets", "microbatches"):
        spec = make_spec(mean_over=mean_over)
        (tmp_path / mean_over).mkdir()
        program = cleave.export_spec(spec, tmp_path / mean_over)
        training.train(build_dir, program, "--steps", STEPS, "--microbatches", 4, "--threads", 1, "--metrics",
                       tmp_path / "m", "--data", save(spec, steps, tmp_path / "data.safetensors"))  # fmt: skip
        losses.append(training.losses(tmp_path / "m"))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("form", ["accumulation", "dp2", "1f1b", "fsdp2"])
def test_evaluation(build_dir, subject, batches, tmp_path, form):
    """Over a data set, alone and while training: the mean over its targets."""
    spec, program = subject
    program, options = make_form(build_dir, program, tmp_path, form)
    data = save(spec, batches, tmp_path / "data.safetensors")
    whole = tuple(map(torch.cat, zip(*batches)))
    expected = train_in_one_batch(spec, [whole])[0][0]
    options = [option for option in options if option not in ("--microbatches", 4)]
    if form == "dp2":
        options.remove(2)
    output = training.train(build_dir, program, "--evaluate", "--data", data, "--quiet", *options)
    assert float(output.split()[-1]) == pytest.approx(expected, rel=1e-8)
    training.train(build_dir, program, "--steps", 1, "--lr", 0, "--data", data, "--eval-data", data, "--metrics",
                   tmp_path / "m", *FORMS[form][1])  # fmt: skip
    assert training.read_metrics(tmp_path / "m")[0]["eval_loss"] == pytest.approx(expected, rel=1e-9)


def test_one_evaluation_of_a_pipeline(build_dir, subject, batches, tmp_path):
    spec, program = subject
    pipeline, _ = make_form(build_dir, program, tmp_path, "1f1b")
    names = [source.name for source in cleave.testing.Signature(spec).inputs]
    save_file(dict(zip(names, batches[0])), tmp_path / "inputs.safetensors")
    training.train(build_dir, pipeline, "--ranks", 2, "--inputs", tmp_path / "inputs.safetensors", "--dump",
                   tmp_path / "dump.safetensors")  # fmt: skip
    module = copy.deepcopy(spec.module)
    loss = spec.loss(module(batches[0][0]), batches[0][1])
    loss.backward()
    found = load_file(tmp_path / "dump.safetensors")
    assert found["loss"].item() == pytest.approx(loss.item(), rel=1e-12)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(found[f"grad.{name}"], parameter.grad, rtol=1e-9, atol=1e-12)


def test_ranks_that_evaluate_their_own(build_dir, subject, batches, tmp_path):
    spec, program = subject
    program, _ = make_form(build_dir, program, tmp_path, "dp2")
    names = [source.name for source in cleave.testing.Signature(spec).inputs]
    save_file(dict(zip(names, (part[: 2 * ROWS] for part in batches[0]))), tmp_path / "inputs.safetensors")
    result = training.run(build_dir, program, "--ranks", 2, "--inputs", tmp_path / "inputs.safetensors")
    assert result.returncode == 1
    assert "the mean of its loss is over targets, of which each of 2 ranks has its own" in result.stderr


def test_a_step_without_targets(build_dir, subject, batches, tmp_path):
    """Its loss is NaN, as PyTorch's is; the parameters stay."""
    spec, program = subject
    tokens, target = batches[0]
    data = save(spec, [(tokens, torch.full_like(target, IGNORED))], tmp_path / "data.safetensors")
    options = ["--steps", 1, "--microbatches", 4, "--data", data, "--metrics", tmp_path / "m"]
    training.train(build_dir, program, *options, "--checkpoint", tmp_path / "run")
    assert training.losses(tmp_path / "m") == [None]
    found = training.checkpoint_group(training.newest_checkpoint(tmp_path / "run"))
    assert all(torch.equal(found[name], value) for name, value in spec.module.state_dict().items())
    result = training.run(build_dir, program, *options, "--stop-on-nan")
    assert result.returncode == 1 and "the loss is nan" in result.stderr


WRONG = {
    "another input": ("<\"target\" ", "<\"nothing\" ", "over targets of \"nothing\", which is not one of its inputs"),
    "another shape": (f"to [{ROWS}, {LENGTH}]", f"to [{ROWS}, 99]", "of \"target\", up to 99 of a dimension"),
    "other dimensions": (f"from [0, 0] to [{ROWS}, {LENGTH}]", "from [0] to [2]", "of 1 dimensions, found"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_programs_that_say_something_else(build_dir, subject, batches, tmp_path, case):
    spec, program = subject
    old, new, message = WRONG[case]
    text = program.read_text()
    assert old in text
    (tmp_path / "wrong.mlir").write_text(text.replace(old, new, 1))
    result = training.run(build_dir, tmp_path / "wrong.mlir", "--steps", 1, "--weights",
                          program.with_suffix(".safetensors"), "--data",
                          save(spec, batches, tmp_path / "data.safetensors"))  # fmt: skip
    assert result.returncode == 1 and message in result.stderr, result.stderr


def weighted(logits, target):
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), weight=torch.ones(VOCABULARY).double())


REFUSED = {
    "masked": (lambda out, t: flat_loss(out, t.masked_fill(t == 0, IGNORED)), "takes as they are given, found what"),
    "padded": (lambda out, t: flat_loss(out, functional.pad(t, (0, 1))[..., 1:]), "padding of targets with -100"),
    "summed": (lambda out, t: functional.cross_entropy(out.flatten(0, 1), t.flatten(), reduction="sum"),
               "expected a loss with reduction 'mean'"),
    "weighted": (weighted, "expected a loss without weights of classes"),
    "none": (lambda out, t: (out**2).mean(), "expected a loss that ignores targets"),
    "two": (lambda out, t: flat_loss(out, t) + flat_loss(out[:, :-1], t[:, 1:]), "expected one mean"),
    "strided": (lambda out, t: flat_loss(out[:, ::2], t[:, ::2]), "takes a range of each dimension of its targets"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_losses_that_cannot_be_counted(tmp_path, case):
    loss, message = REFUSED[case]
    with pytest.raises(cleave.ExportError) as refusal:
        cleave.export_spec(make_spec(loss), tmp_path)
    assert message in str(refusal.value) and "mean_over='targets'" in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_options_of_the_export(tmp_path):
    with pytest.raises(cleave.ExportError, match="mean_over to be one of microbatches, targets, found 'tokens'"):
        make_spec(mean_over="tokens")
    with pytest.raises(cleave.ExportError, match="found mode 'forward', which has none"):
        make_spec(mode="forward", optimizer=None)
