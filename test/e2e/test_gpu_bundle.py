"""The bundle for machines with a GPU (scripts/gpu), made for the processor and run here.

Every part runs as it does there, but for what needs CUDA; and each kind of check is seen to fail. With `./dev test --all`
in all three forms of a program and for all levels of the processor's architecture.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

IS_FULL = bool(os.environ.get("CLEAVE_TEST_ALL"))
VARIANTS = "ops,kernels,exec" if IS_FULL else "exec"
CHIPS = "x86-64-v2,x86-64-v3,x86-64-v4" if IS_FULL else "x86-64-v2"
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "OUT")} | {
    "PYTHON": sys.executable, "OMP_NUM_THREADS": "1",
    # Some virtual machines announce AMX and kill processes that use it, as PyTorch's bfloat16 does.
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16",
}  # fmt: skip


def run(command, timeout=300):
    return subprocess.run(
        list(map(str, command)), env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout, cwd="/")  # fmt: skip


MISUSE = {
    "found gtp": ["--models", "gpt_tied,gtp"],
    "/tmp is there already": ["--out", "/tmp"],
    "expected levels of the x86-64 architecture, found sm_90": ["--device", "cpu", "--chips", "sm_90"],
    "expected chips like sm_90, found x86-64-v3": ["--chips", "x86-64-v3"],
}
# Calls with each of the arguments in one process, so that PyTorch is loaded once: the statuses.
MAKE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import make_bundle
for arguments in json.loads(sys.argv[2]):
    try:
        make_bundle.main(arguments)
        print("status 0")
    except SystemExit as end:
        print("status", end.code)
"""
# A user's own models: with stochastic depth and dropout; with random numbers that PyTorch's side does not draw as Cleave
# does; and with an optimizer that it does not have.
OWN = '''
import cleave, torch
from torch import nn

class Own(nn.Module):
    def __init__(self, noise):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.dropout, self.noise = nn.Dropout(0.25), noise

    def forward(self, x):
        y = self.dropout(torch.tanh(self.first(x)))
        y = y + y.new_empty(y.shape[0], 1).bernoulli_(0.5) * self.norm(y)
        return self.last(y + torch.rand_like(y) if self.noise else y)

def spec(noise):
    torch.manual_seed(0)
    module = Own(noise)
    return cleave.ExportSpec(module, (torch.randn(4, 6),), loss=nn.functional.cross_entropy, targets=(torch.tensor([0, 2, 1, 1]),),
                             optimizer=torch.optim.AdamW(module.parameters()))

def own():
    return spec(noise=False)

def noisy():
    return spec(noise=True)

def by_adam():
    result = spec(noise=False)
    result.optimizer = torch.optim.Adam(result.module.parameters())
    return result
'''
EAGER = ('("eager", "compile")', '("eager",)')


@pytest.fixture(scope="module")
def made(build_dir, tmp_path_factory):
    """A bundle, and what was said of misuse before. Two models: one with tied weights that two ranks train, and one with
    numbers drawn on the host."""
    folder = tmp_path_factory.mktemp("gpu")
    build, out = ["--build", str(build_dir)], folder / "bundle"
    (folder / "own.py").write_text(OWN)
    calls = [[*build, "--out", str(folder / "none"), *each] for each in MISUSE.values()]
    small = ["--device", "cpu", "--small", "--models", "gpt_tied", "--variants", "ops", "--chips", "x86-64-v2"]
    calls += [
        [*build, "--out", str(folder / "none"), *small, *(f"--also={folder}/own.py:{name}" for name in names)]
        for names in (["noisy"], ["absent"], ["by_adam"], ["own", "own"])
    ]
    calls.append([*build, "--out", str(out), "--device", "cpu", "--small", "--models", "gpt_tied,gpt_dropout",
                  "--variants", VARIANTS, "--chips", CHIPS, "--also", f"{folder}/own.py:own"])  # fmt: skip
    result = run([sys.executable, "-c", MAKE, ROOT / "scripts/gpu", json.dumps(calls)])
    assert result.stdout.count("status 0") == 1, result.stdout + result.stderr
    if not IS_FULL:
        part = out / "target" / "part_llama.py"
        assert EAGER[0] in part.read_text()
        replace(part, part.read_text().replace(*EAGER))
    return out, result


@pytest.fixture
def bundle(made):
    return made[0]


def test_misuse_of_make_bundle(made):
    _, result = made
    statuses = [line for line in result.stdout.splitlines() if line.startswith("status")]
    refused = [line for line in statuses if line.startswith("status make_bundle: ")]
    assert statuses == ["status 2"] * len(MISUSE) + refused + ["status 0"]
    for message in MISUSE:
        assert message in result.stderr
    assert "own.py:noisy: PyTorch's side gives other values each time: does the model draw random numbers" in refused[0]
    assert "own.py has no function 'absent'" in refused[1]
    assert "own.py:by_adam: expected AdamW or SGD as the optimizer, found Adam" in refused[2]
    assert "own.py:own: another model of the bundle is called own, too" in refused[3]
    assert not (made[0].parent / "none").exists()


def parts(bundle, out, names="", expected=0):
    command = [bundle / "run_all", "--device", "cpu", "--out", out]
    result = run([*command, "--parts", names] if names else command)
    assert result.returncode == expected, result.stdout + result.stderr
    return json.loads((out / "results.json").read_text())["parts"], result.stdout


def test_every_part_runs(bundle, tmp_path):
    results, output = parts(bundle, tmp_path / "out")
    states = {name: result["status"] for name, result in results.items()}
    assert {states.pop(name) for name in ("nccl", "sanitizer", "unit")} == {"skipped"}
    assert set(states.values()) == {"passed"}, output
    checks = {name: len(result["checks"]) for name, result in results.items()}
    forms = len(VARIANTS.split(","))
    assert checks["models"] == 3 * forms and checks["gloo"] == 4 * forms and checks["bfloat16"] == forms
    # The lowered form without the activations that are cheap to compute again is one more.
    assert checks["llama"] == forms + 1 and checks["training"] == 3
    assert checks["options"] >= 8
    # One line for each part, and one for all.
    assert len(output.splitlines()) == len(results) + 1
    report = (tmp_path / "out" / "results.md").read_text()
    eager = "| PyTorch, compile |" if IS_FULL else "| PyTorch, eager |"
    for text in ("### Models in float32 against PyTorch", "GB/s", eager, "skipped  nccl"):
        assert text in report, text


def copy(bundle, folder):
    """The bundle, to be changed; what is not changed is shared."""
    shutil.copytree(bundle, folder, copy_function=os.link)
    return folder


def replace(file, data):
    file.unlink()
    file.write_bytes(data) if isinstance(data, bytes) else file.write_text(data)


def change_manifest(bundle, change):
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    replace(bundle / "manifest.json", json.dumps(manifest))


def keep_lowered(manifest):
    """One form of each program of the bundle's own says whether its check can fail."""
    manifest["models"] = [entry for entry in manifest["models"] if not entry["folder"].endswith(".own")]
    for entry in [*manifest["models"], manifest["llama"]]:
        entry["variants"] = ["exec"]


def test_wrong_weights_are_found(bundle, tmp_path):
    """Cleave reads weights that PyTorch does not."""
    changed = copy(bundle, tmp_path / "bundle")
    change_manifest(changed, keep_lowered)
    part = changed / "target" / "part_models.py"
    replace(part, part.read_text().replace(
        'file = folder / "weights.safetensors"', 'file = folder / "changed.safetensors"'))  # fmt: skip
    for folder in (changed / "models").iterdir():
        weights = load_file(folder / "weights.safetensors")
        if "h.1.mlp.c_fc.weight" not in weights:
            continue
        weights["h.1.mlp.c_fc.weight"] += 0.01 * torch.randn(weights["h.1.mlp.c_fc.weight"].shape)
        save_file(weights, folder / "changed.safetensors")
    results, output = parts(changed, tmp_path / "out", "models,bfloat16", expected=1)
    for name, result in results.items():
        assert result["status"] == "failed", output
        assert not any(check["ok"] for check in result["checks"]), (name, result["checks"])


def test_wrong_kernels_are_found(bundle, tmp_path):
    """One that leaves its results unwritten: its phases have no chunks."""
    changed = copy(bundle, tmp_path / "bundle")

    def empty(manifest):
        for entry in manifest["kernels"]["kernels"]:
            for phase in entry["phases"]:
                phase["chunks"] = 0

    change_manifest(changed, empty)
    results, _ = parts(changed, tmp_path / "out", "kernels", expected=1)
    assert len(results["kernels"]["checks"]) >= 20
    assert not any(check["ok"] for check in results["kernels"]["checks"])


def test_wrong_steps_are_found(bundle, tmp_path):
    """Cleave trains the large model on other tokens than PyTorch."""
    changed = copy(bundle, tmp_path / "bundle")
    part = changed / "target" / "part_llama.py"
    text = part.read_text().replace('"--shuffle=false"', '"--shuffle=true"')
    replace(part, text.replace(*EAGER))
    change_manifest(changed, keep_lowered)
    results, _ = parts(changed, tmp_path / "out", "llama", expected=1)
    assert [check["ok"] for check in results["llama"]["checks"]] == [False]


def test_a_part_that_crashes_hangs_or_checks_nothing_leaves_the_others(bundle, tmp_path):
    changed = copy(bundle, tmp_path / "bundle")
    target = changed / "target"
    replace(target / "part_models.py", "import os\ndef run(part):\n    os.abort()\n")
    replace(target / "part_bfloat16.py", "import time\ndef run(part):\n    time.sleep(100)\n")
    replace(target / "part_training.py", "def run(part):\n    pass\n")
    driver = target / "run_all.py"
    replace(driver, driver.read_text().replace('"bfloat16": 100', '"bfloat16": 6'))
    results, output = parts(changed, tmp_path / "out", "models,bfloat16,training,environment", expected=1)
    reasons = [result.get("failure", "") for result in results.values()]
    assert reasons[0].startswith("its process ended with signal 6")
    assert reasons[1:3] == ["ended after 6 s", "it checked nothing"]
    assert results["environment"]["status"] == "passed"
    assert "1 passed, 3 failed, 0 skipped" in output


def test_a_gpu_that_is_not_there_is_said(bundle, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    changed = copy(bundle, tmp_path / "bundle")
    change_manifest(changed, lambda manifest: manifest.update(devices=["cuda"]))
    result = run([changed / "run_all", "--out", tmp_path / "out", "--parts", "kernels"])
    assert result.returncode == 1
    assert result.stdout.count("PyTorch finds no CUDA device") == 1


@pytest.mark.parametrize("arguments, message", [
    (["--parts", "models,nothing"], "expected some of environment, unit, models"),
    (["--device", "cuda"], "this bundle is for cpu, found cuda"),
])  # fmt: skip
def test_misuse_of_run_all(bundle, arguments, message):
    result = run([bundle / "run_all", "--device", "cpu", *arguments])
    assert result.returncode == 2 and message in result.stderr
