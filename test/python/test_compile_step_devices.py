"""`cleave.compile_step` on a device: what it does around a session there.

There is none here. The fake plugin (test/unit/runtime/device/FakePlugin.cpp) goes the ways of one over the host's memory,
and tensors of FakeTensorMode are on a device that does not exist: all but what its kernels compute and its streams order.
"""

import json
import os
import pathlib
import subprocess
import sys
import types

import cleave_path  # noqa: F401
import cleave
import forked_ranks
import gpt
import pytest
import torch
from cleave import devices, training_step
from cleave.optimizer_state import OptimizerStates
from torch._subclasses.fake_tensor import FakeTensorMode

SCRIPT = pathlib.Path(__file__).with_name("step_ranks.py")
PLUGIN = pathlib.Path(os.environ.get("CLEAVE_BUILD", pathlib.Path(__file__).parents[2] / "build")) / "lib" / "libcleave_fake_device.so"


def train(ranks, folder, *modes, **environment):
    """Losses and norms of `step_ranks.py all` by mode, and what the plugin was asked for."""
    file, log = folder / "losses.json", folder / "log"
    for old in (file, log):
        old.unlink(missing_ok=True)
    variables = {"CLEAVE_DEVICE_PLUGIN": str(PLUGIN), "CLEAVE_FAKE_LOG": str(log), "CLEAVE_STEPS": "3", **environment}
    ran = forked_ranks.run(ranks, SCRIPT, "all", file, *modes, environment=variables)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(file.read_text()), log.read_text() if log.exists() else ""


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return train(2, tmp_path_factory.mktemp("cpu"), "fsdp", "tp", "pp")[0]


def test_ranks_that_share_a_device_exchange_through_the_host(on_cpu, tmp_path):
    losses, log = train(2, tmp_path, "tp", CLEAVE_STEP_DEVICE="shared")
    assert losses["tp"] == on_cpu["tp"]
    assert log.count("open 0") == 2 and "createBackend" not in log
    assert "probe" not in log  # which forks


def test_ranks_with_devices_of_their_own_have_a_backend(on_cpu, tmp_path):
    losses, log = train(2, tmp_path, "fsdp", "pp", CLEAVE_STEP_DEVICE="own", CLEAVE_FAKE_COUNT="2", CLEAVE_FAKE_BACKEND="on")
    assert losses == {mode: on_cpu[mode] for mode in ("fsdp", "pp")}
    assert "open 0" in log and "open 1" in log
    # Of each step's ranks, and for a pipeline's messages.
    assert log.count("createBackend world/collectives") == 2 * len(losses)
    assert "createBackend world/ascending" in log


def compiled(module, **options):
    return cleave.compile_step(module, gpt.cross_entropy, torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True), **options)


def model(**options):
    torch.manual_seed(0)
    return gpt.GPT(gpt.GPTConfig(layers=2, heads=4, width=32, vocabulary=256, context=32, tied=False, **options))


def batch(device="cpu"):
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(256, (4, 32), generator=generator).to(device) for _ in range(2)]


def on_fake(device):
    return "cuda", 0, str(PLUGIN)


def test_one_rank_with_dropout_and_evaluation(monkeypatch, tmp_path):
    """Inputs, random numbers, outputs, averages and the optimizer's state, as on the processor."""

    def run():
        module = model(dropout=0.1)
        step = compiled(module, clip_norm=1.0, outputs=True, microbatches=2)
        torch.manual_seed(3)
        losses = [(out.loss.item(), out.grad_norm.item(), out.outputs) for out in (step(*batch()) for _ in range(3))]
        module.eval()
        losses.append(step.evaluate(*batch()).loss.item())
        state = step._optimizers[0].state_dict()["state"]
        step.close()
        return losses, module.state_dict(), state

    expected = run()
    monkeypatch.setenv("CLEAVE_FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(training_step, "for_native", on_fake)
    found = run()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_what_is_traced_are_stand_ins_on_the_cpu(monkeypatch):
    """The session gets the module's own tensors, and states and counts beside them; the module is left as it was."""
    got = {}

    class Stop(Exception):
        pass

    def session(program, adopt, *, device, **options):
        got.update(adopt=adopt, device=device)
        raise Stop

    native = training_step.native()
    monkeypatch.setattr(training_step, "native", lambda: types.SimpleNamespace(signature=native.signature, Session=session))
    monkeypatch.setattr(devices, "_find_plugin", lambda kind: f"{kind}'s plugin")
    mode = FakeTensorMode()

    def states(*arguments):
        with mode:
            return OptimizerStates(*arguments)

    monkeypatch.setattr(training_step, "OptimizerStates", states)
    with mode, torch.device("cuda:0"):
        module = model()
    before = dict(module.named_parameters())
    step = compiled(module)
    with pytest.raises(Stop):
        step(*batch())
    assert got["device"] == ("cuda", 0, "cuda's plugin")
    places = {name: tensor.device for name, tensor in got["adopt"].items()}
    assert set(places.values()) == {torch.device("cuda:0")}
    assert {name for name in places if name.startswith("param.")} == {f"param.{name}" for name in before}
    assert {name for name in places if name.endswith(".exp_avg")} == {f"optim.{name}.exp_avg" for name in before}
    assert all(parameter is before[name] for name, parameter in module.named_parameters())
    counts = {count.device for count in step._state._states[0]._counts.values()}
    assert counts == {torch.device("cuda:0")}  # where fused optimizers have them


class Autocast(torch.nn.Module):
    """Whose types depend on what autocast has made of the layer's."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = self.layer(x)
        return y.float() * (2 if y.dtype == torch.bfloat16 else 3)


def test_autocast_of_the_device_is_traced_as_the_cpu_s():
    from cleave.export.spec import ExportSpec
    from cleave.programs import trace_spec

    spec = ExportSpec(Autocast(), (torch.ones(8, 4),), loss=torch.mean, device_type="cuda")
    with pytest.warns(cleave.ExportNote, match=r"torch.autocast\('cuda'\) is traced as the CPU's"):
        text = str(trace_spec(spec))
    assert "tensor<8x4xbf16>" in text and "mul_scalar" in text and "= 2" in text


def refuses(module, text, *data):
    with pytest.raises(cleave.ExportError) as caught:
        compiled(module)(*(data or batch()))
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_misuse(monkeypatch):
    hollow = model()
    hollow.ln_f.to("meta")
    refuses(hollow, "'ln_f.weight': expected it on the CPU or on a CUDA device, where steps compute, found it on meta")
    mixed = model()
    with FakeTensorMode():
        mixed.ln_f = torch.nn.LayerNorm(32, device="cuda")
    refuses(mixed, "'ln_f.weight': expected it on cpu, where 'wte.weight' is, found it on cuda:0")
    with FakeTensorMode():
        elsewhere = batch("cuda")
    refuses(model(), "expected a batch on the CPU or on cpu, found a tensor on cuda:0", *elsewhere)
    monkeypatch.delenv("CLEAVE_DEVICE_PLUGIN", raising=False)
    with FakeTensorMode(), torch.device("cuda:0"):
        module = model()
    monkeypatch.setattr(pathlib.Path, "exists", lambda path: False)
    refuses(module, "the model is on a cuda device: expected the plugin libcleave_cuda.so in ")


def test_a_device_that_fails_is_one_error(tmp_path):
    """In a process of its own: devices are opened once for all steps of a process."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_compile_step_devices as t\n"
        "t.training_step.for_native = t.on_fake\n"
        "try: t.compiled(t.model())(*t.batch())\n"
        "except t.cleave.Error as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(pathlib.Path(__file__).parent)], capture_output=True, text=True, check=False,
        env={**os.environ, "CLEAVE_FAKE_FAIL": "open"},
    )  # fmt: skip
    assert ran.stdout == "--device cuda: cannot use device 0: the fake device was told to fail in open\n", ran.stderr[-2000:]
