"""randint, randperm, multinomial, exponential and normal numbers: eager mode's on one rank, one whole on several."""

import subprocess

import cleave
import cleave_run  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from cleave import DataParallel, Plan, testing
from safetensors.torch import load_file, save_file
from torch import nn


class Draws(nn.Module):
    """What users write: permuted examples, sampled classes, Gumbel noise, masks, noise of a learned scale."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.first, self.second = nn.Linear(6, 7, dtype=dtype), nn.Linear(7, 5, dtype=dtype)
        self.table = nn.Embedding(9, 7, dtype=dtype)

    def forward(self, x):
        h = self.first(x)
        h = 0.7 * h + 0.3 * h[torch.randperm(8)]
        h = h + self.table(torch.randint(0, 9, (8,))) + self.table(torch.randint_like(x[:, 0], 2, 9, dtype=torch.int64))
        h = h + torch.normal(h.detach(), 0.5) + torch.normal(0.0, torch.full_like(h, 0.1)) + torch.normal(1.0, 2.0, (8, 7))
        h = h * torch.bernoulli(torch.sigmoid(h)) + torch.randint(1, 4, (8, 7), dtype=h.dtype)
        y = F.gumbel_softmax(self.second(h), tau=0.5)
        picked = torch.multinomial(y.detach(), 3) + torch.multinomial(y.detach(), 4, replacement=True)[:, :3]
        again = torch.multinomial(y.detach().t().contiguous().t(), 1)
        return y + F.dropout((F.one_hot(picked % 5, 5).sum(1) + again).to(y.dtype), 0.25)


def export(folder, dtype=torch.float32, **options):
    torch.manual_seed(0)
    target = torch.tensor([0, 4, 2, 1, 3, 3, 0, 1])
    spec = cleave.ExportSpec(Draws(dtype), (torch.randn(8, 6, dtype=dtype),), loss=F.cross_entropy, targets=(target,),
                             name="draws", **options)  # fmt: skip
    path = cleave.export_spec(spec, folder)
    inputs = folder / "inputs.safetensors"
    save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
    return spec, path, inputs


def passed(build_dir, path, name, *passes):
    output = path.with_name(f"{name}.mlir")
    result = subprocess.run([build_dir / "bin/cleave-opt", path, *passes, "-o", output], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    weights = output.with_suffix(".safetensors")
    if not weights.exists():
        weights.symlink_to(path.with_suffix(".safetensors"))
    return output


@pytest.mark.parametrize("passes", [(), ("--fuse-kernels", "--lower-to-exec=target=cpu")], ids=["exported", "lowered"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_numbers_are_eager_modes(dtype, passes, build_dir, cleave_run, tmp_path):
    spec, path, inputs = export(tmp_path, dtype)
    program = passed(build_dir, path, "passed", *passes) if passes else path
    expected = testing.evaluate(spec, seed=5)
    dump = tmp_path / "dump.safetensors"
    cleave_run.succeed(program, "--inputs", inputs, "--seed", 5, "--dump", dump)
    found = load_file(dump)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_a_forward_program_is_differentiated(build_dir, cleave_run, tmp_path):
    """What is drawn has no gradient; eager mode gives the mean and deviation of normal numbers none, too."""
    _, joint, inputs = export(tmp_path)
    (tmp_path / "forward").mkdir()
    _, forward, _ = export(tmp_path / "forward", gradients=False)
    ours = passed(build_dir, forward, "ours", "--autodiff")
    cleave_run.succeed(ours, "--against", joint, "--inputs", inputs, "--seed", 5)


@pytest.mark.parametrize("generator", ["mt19937", "philox"])
def test_ranks_draw_parts_of_one_whole(generator, build_dir, cleave_run, tmp_path):
    _, path, inputs = export(tmp_path, torch.float64, generator=generator)
    Plan({"dp": 2}, {"": DataParallel("dp")}).write(tmp_path / "plan.json")
    local = passed(build_dir, path, "local", f"--annotate-placements=plan={tmp_path / 'plan.json'}",
                   "--propagate-placements", "--partition", "--check-spmd-types")  # fmt: skip
    cleave_run.succeed(local, "--against", path, "--inputs", inputs, "--seed", 5, "--ranks", 2, "--tolerance", 1e-9)


class OneDraw(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        return self.draw(x)


PHILOX = {
    "randint": lambda x: torch.randint(-2, 5, (200, 50)),
    "randint_of_two": lambda x: torch.randint(0, 2**40, (20, 50)),
    "exponential": lambda x: torch.empty(200, 50).exponential_(2.0),
    "randperm": lambda x: torch.randperm(1000),
    "multinomial": lambda x: torch.multinomial(x.expand(1000, 4), 2),
    "multinomial_again": lambda x: torch.multinomial(x.expand(1000, 4), 5, replacement=True),
}


@pytest.fixture(scope="module")
def drawn(build_dir, tmp_path_factory):
    """What a program of all of them draws by Philox."""
    folder = tmp_path_factory.mktemp("philox")

    class All(nn.Module):
        def forward(self, x):
            return [draw(x) for draw in PHILOX.values()]

    weights = torch.tensor([0.5, 0.0, 0.25, 0.25])
    spec = cleave.ExportSpec(All(), (weights,), name="all", generator="philox", batch_dims={"x": None})
    path = cleave.export_spec(spec, folder)
    save_file({"x": weights}, folder / "inputs.safetensors")
    command = [build_dir / "bin/cleave-run", path, "--inputs", folder / "inputs.safetensors", "--dump", folder / "dump.safetensors"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    tensors = load_file(folder / "dump.safetensors")
    return {name: tensors[f"output.{i}"] for i, name in enumerate(PHILOX)}


def test_philox_integers(drawn):
    counts = torch.bincount(drawn["randint"].flatten() + 2)
    assert len(counts) == 7 and (counts > 1250).all() and (counts < 1600).all()
    wide = drawn["randint_of_two"].double() / 2**40
    assert 0 <= wide.min() and wide.max() < 1 and abs(wide.mean() - 0.5) < 0.05


def test_philox_exponential(drawn):
    values = drawn["exponential"]
    assert (values >= 0).all() and abs(values.mean() - 0.5) < 0.02 and abs((values > 0.5).float().mean() - 0.3679) < 0.02


def test_philox_permutation(drawn):
    permutation = drawn["randperm"]
    assert torch.equal(permutation.sort().values, torch.arange(1000))
    assert (permutation - torch.arange(1000)).abs().float().mean() > 250


def test_philox_samples(drawn):
    once, again = drawn["multinomial"], drawn["multinomial_again"]
    assert (once[:, 0] != once[:, 1]).all() and not (once == 1).any() and not (again == 1).any()
    assert abs((again == 0).float().mean() - 0.5) < 0.04 and abs((once[:, 0] == 0).float().mean() - 0.5) < 0.06


def test_draws_without_a_place(tmp_path):
    """One line for what programs cannot draw."""
    cases = {
        "use torch.bernoulli(p)": lambda x: torch.empty_like(x).bernoulli_(torch.full((8, 6), 0.5, dtype=torch.float64)),
        "without a counterpart": lambda x: x + torch.empty_like(x).cauchy_(),
    }
    for expected, draw in cases.items():
        with pytest.raises(cleave.ExportError) as error:
            cleave.export(OneDraw(draw), (torch.ones(8, 6),), out=tmp_path)
        assert expected in str(error.value) and "test_random_integers.py" in str(error.value)
        assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("generator", ["mt19937", "philox"])
def test_weights_that_no_sample_has(generator, cleave_run, tmp_path):
    spec = cleave.ExportSpec(OneDraw(lambda x: torch.multinomial(x, 2)), (torch.ones(2, 3),), name="one", generator=generator)
    path = cleave.export_spec(spec, tmp_path)
    save_file({"x": torch.tensor([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])}, tmp_path / "inputs.safetensors")
    error = cleave_run.fail(path, "--inputs", tmp_path / "inputs.safetensors")
    assert len(error.splitlines()) == 1 and "aten.rng_multinomial" in error, error
