"""A program in pipeline stages computes, bit for bit, what the whole program does."""

import re
import subprocess

import cleave_run  # noqa: F401
import combinations_cover
import pytest
import torch
from cleave import testing
from combinations_cover import covered
from exported_models import MODELS
from safetensors.torch import save_file

import cleave

TWO, FOUR = "count=2 balance=cost", "count=4 balance=cost"


@pytest.fixture(scope="module")
def outline(build_dir, tmp_path_factory):
    """Cuts a program into stages: the new program's path, beside its weights, and what it says."""
    folder = tmp_path_factory.mktemp("staged")

    def run(path, options, *more):
        name = re.sub("[^a-z0-9]+", ".", f"{path.stem}.{options}.{'.'.join(more)}")
        staged = folder / f"{name}.mlir"
        command = [build_dir / "bin" / "cleave-opt", path]
        command += [f"--outline-stages={options} explain=true", *more, "-o", staged]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        weights = staged.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(path.with_suffix(".safetensors"))
        return staged, result.stderr

    return run


def cases():
    """Every model in two or four stages; in both with CLEAVE_TEST_ALL."""
    if combinations_cover.run_all():
        return [(name, options) for name in MODELS for options in (TWO, FOUR)]
    return [(name, (TWO, FOUR)[(i + combinations_cover.seed()) % 2]) for i, name in enumerate(MODELS)]


@pytest.mark.parametrize("name,options", cases())
def test_stages_compute_what_the_whole_does(name, options, program, outline, example, cleave_run):
    spec, path = program(name)
    staged, report = outline(path, options)
    # The default tolerance is 0: loss, outputs, gradients and buffers, bitwise.
    cleave_run.succeed(path, "--against", staged, "--inputs", example(spec), "--seed", 3)
    shares = [float(share) for share in re.findall(r"([0-9.]+) % of the forward's cost", report)]
    assert len(shares) == int(options[6]) and all(share > 0 for share in shares)


TRAINED = [("gpt_tied", FOUR), ("gpt_untied_dropout", TWO), ("llama", FOUR), ("moe", TWO)]


@covered({"split": {"whole": (), "split": ("--split-backward",)}, "name,options": TRAINED}, strength=1)
def test_training_in_stages_is_training(name, options, split, program, outline, cleave_run,
                                        tmp_path):  # fmt: skip
    """Steps, microbatches, accumulation across stages, dropout and the optimizers, bitwise."""
    _, path = program(name)
    staged, _ = outline(path, options, *split)
    data = tmp_path / "text"
    data.write_bytes(bytes(range(32, 127)) * 40)
    arguments = ["--steps", 3, "--microbatches", 3, "--data", f"text:{data}", "--seed", 5]
    cleave_run.succeed(path, "--against", staged, *arguments)


def test_weight_gradients_of_stages_may_wait(program, outline, cleave_run, tmp_path):
    _, path = program("gpt_tied")
    staged, _ = outline(path, FOUR, "--split-backward")
    data = tmp_path / "text"
    data.write_bytes(bytes(range(32, 127)) * 40)
    text = cleave_run.succeed(
        staged, "--against", path, "--steps", 3, "--microbatches", 3, "--data", f"text:{data}",
        "--weight-gradients=deferred")  # fmt: skip
    assert "loss" in text
    assert "waiting" in cleave_run.succeed(staged, "--dry-run", "--weight-gradients=deferred")


class Crossings(torch.nn.Module):
    """All that can cross a boundary: a skip over a stage, an integer and a bool, tied weights, a mask."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 8)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.blocks[1].weight.requires_grad_(False)
        self.register_buffer("frequencies", torch.linspace(0.1, 1.0, 8))
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, tokens):
        stage = torch.fx.traceback.annotate
        table = torch.cos(torch.arange(tokens.shape[1]).unsqueeze(1) * self.frequencies)
        with stage({"stage": 0}):
            skip = self.embedding(tokens) * table
            best = skip.argmax(-1)
            x = torch.tanh(self.blocks[0](skip))
            positive = x > 0
        with stage({"stage": 1}):
            y = self.norm(torch.tanh(self.blocks[1](x)).flatten(0, 1)).view_as(x) + table
        with stage({"stage": 2}):
            z = torch.where(positive, torch.tanh(self.blocks[2](y)), skip)
            logits = z @ self.embedding.weight.T + torch.nn.functional.one_hot(best, 11)
        return logits


@pytest.fixture(scope="module")
def crossings(tmp_path_factory):
    torch.manual_seed(0)
    tokens = torch.randint(0, 11, (4, 6))
    spec = cleave.ExportSpec(
        Crossings(), (tokens,), targets=(torch.randint(0, 11, (4, 6)),), name="crossings",
        loss=lambda logits, y: torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2))  # fmt: skip
    return spec, cleave.export_spec(spec, tmp_path_factory.mktemp("crossings"))


def crossing(text, kind, function):
    """Names that `function` gives its neighbour."""
    results = re.search(rf"func.func @{function}\(.*?->(.*?)attributes", text, re.S).group(1)
    return re.findall(rf'#train.role<{kind} "([^"]+)">', results)


def test_everything_crosses(crossings, outline, example, cleave_run, tmp_path):
    spec, path = crossings
    staged, report = outline(path, "recompute=views")
    cleave_run.succeed(path, "--against", staged, "--inputs", example(spec))
    text = staged.read_text()
    forward = [crossing(text, "crossing", f"forward_{s}") for s in range(3)]
    back = [crossing(text, "crossing_gradient", f"backward_{s}") for s in range(3)]
    # The skip, the integer and the bool are forwarded, the table is computed in each stage.
    assert len(forward[0]) == 4 and len(set(forward[0]) & set(forward[1])) == 3
    assert not forward[2] and not any("cos" in name for name in forward[0])
    assert text.count("aten.cos") == 2
    # Of y, the skip and the tied weight; then of x in place of y.
    assert len(back[2]) == 3 and len(back[1]) == 3 and not back[0]
    assert "stage 2:" in report
    # Only the first stage's update changes the tied weight, none the frozen one.
    updates = re.findall(r'@update_(\d)\((?:.*?)attributes', text, re.S)
    assert updates == ["0", "1", "2"]
    batch = testing.random_batch(spec, 6, torch.Generator().manual_seed(1))
    save_file({n: t.contiguous() for n, t in batch.items()}, tmp_path / "data.safetensors")
    cleave_run.succeed(
        path, "--against", staged, "--steps", 3, "--microbatches", 2,
        "--data", f"safetensors:{tmp_path / 'data.safetensors'}")  # fmt: skip


def test_a_frozen_stage_has_an_empty_backward(outline, example, cleave_run, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    for layer in model[:2]:
        layer.requires_grad_(False)
    spec = cleave.ExportSpec(model, (torch.randn(3, 4),), loss=lambda y: y.square().mean(),
                             optimizer=lambda p: torch.optim.SGD(p, lr=0.1), name="frozen")  # fmt: skip
    path = cleave.export_spec(spec, tmp_path)
    staged, report = outline(path, "at=2")
    cleave_run.succeed(path, "--against", staged, "--inputs", example(spec))
    assert re.search(r"stage 0: 2 ops forward, 0 backward|stage 0: \d+ ops forward, 0 backward", report)
    assert "back: 0 gradients, 0 bytes" in report and "@update_0" not in staged.read_text()


def test_a_forward_has_stages_too(outline, example, cleave_run, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    spec = cleave.ExportSpec(model, (torch.randn(3, 4),), mode="forward", name="forward_only")
    path = cleave.export_spec(spec, tmp_path)
    staged, _ = outline(path, "at=1,2,3")
    assert "backward" not in staged.read_text().split("loc(")[0]
    cleave_run.succeed(path, "--against", staged, "--inputs", example(spec))
