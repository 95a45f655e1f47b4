"""nn.LSTM, nn.GRU and nn.RNN: step by step, as eager mode computes them without oneDNN's kernel for a layer."""

import contextlib
import subprocess
import warnings

import cleave
import cleave_run  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from cleave import DataParallel, Plan, testing
from combinations_cover import part_of_today
from safetensors.torch import load_file, save_file
from torch import nn


@contextlib.contextmanager
def without_onednn():
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class Tagger(nn.Module):
    def __init__(self, kind, dtype, **options):
        super().__init__()
        self.words = nn.Embedding(11, 5, dtype=dtype)
        self.layers = getattr(nn, kind)(5, 4, batch_first=True, dtype=dtype, **options)
        width = (options.get("proj_size") or 4) * (2 if options.get("bidirectional") else 1)
        self.out = nn.Linear(width, 3, dtype=dtype)

    def forward(self, words):
        steps, state = self.layers(self.words(words))
        last = state[0] if isinstance(state, tuple) else state
        return self.out(steps).mean(1) + last.sum(0).mean(1, keepdim=True)


class Cells(nn.Module):
    """Cells that users step themselves, with a state that goes in."""

    def __init__(self, dtype):
        super().__init__()
        self.a, self.b, self.c = nn.LSTMCell(5, 4, dtype=dtype), nn.GRUCell(4, 4, dtype=dtype), nn.RNNCell(4, 4, dtype=dtype)
        self.words, self.out = nn.Embedding(11, 5, dtype=dtype), nn.Linear(4, 3, dtype=dtype)

    def forward(self, words):
        x = self.words(words)
        h = c = x.new_zeros(x.shape[0], 4)
        for step in x.unbind(1):
            h, c = self.a(step, (h, c))
            h = self.c(self.b(h, c), h)
        return self.out(h)


f32, f64, bf16 = torch.float32, torch.float64, torch.bfloat16
# Gates of a GRU are made in place in eager mode, in rows of a product, where a kernel for vectors takes the ends of rows by
# another formula than whole rows: their last bits differ, those of float32 only with vectors of 8 (AVX2).
CASES = {
    "lstm": (lambda: Tagger("LSTM", f32), 0),
    "lstm-deep": (lambda: Tagger("LSTM", f64, num_layers=2, bidirectional=True, dropout=0.3), 0),
    "lstm-projected": (lambda: Tagger("LSTM", bf16, proj_size=3, bias=False), 0),
    "gru-deep": (lambda: Tagger("GRU", f32, num_layers=2, bidirectional=True, dropout=0.3), 2e-7),
    "gru": (lambda: Tagger("GRU", f64), 1e-15),
    "rnn": (lambda: Tagger("RNN", f64, nonlinearity="relu", num_layers=2, dropout=0.2), 0),
    "cells": (lambda: Cells(f64), 1e-15),
}


def make(name):
    torch.manual_seed(0)
    module, tolerance = CASES[name][0](), CASES[name][1]
    words, target = torch.randint(0, 11, (4, 6)), torch.tensor([0, 2, 1, 1])
    return cleave.ExportSpec(module, (words,), loss=F.cross_entropy, targets=(target,), name="tagger"), tolerance


def export(spec, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cleave.ExportNote)
        path = cleave.export_spec(spec, folder)
    inputs = folder / "inputs.safetensors"
    save_file(testing.example_inputs(spec), inputs)
    return path, inputs


def passed(build_dir, path, name, *passes):
    output = path.with_name(f"{name}.mlir")
    result = subprocess.run([build_dir / "bin/cleave-opt", path, *passes, "-o", output], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    weights = output.with_suffix(".safetensors")
    if not weights.exists():
        weights.symlink_to(path.with_suffix(".safetensors"))
    return output, result.stderr


@pytest.mark.parametrize("name", part_of_today(list(CASES)))
def test_gradients_are_eager_modes(name, build_dir, cleave_run, tmp_path):
    spec, tolerance = make(name)
    path, inputs = export(spec, tmp_path)
    assert "aten.call" not in path.read_text()
    with without_onednn():
        expected = testing.evaluate(spec, seed=3)
    lowered, _ = passed(build_dir, path, "lowered", "--fuse-kernels", "--lower-to-exec=target=cpu")
    dump = tmp_path / "dump.safetensors"
    for program in (path, lowered):
        cleave_run.succeed(program, "--inputs", inputs, "--seed", 3, "--dump", dump)
        found = load_file(dump)
        for key, value in expected.items():
            torch.testing.assert_close(found[key], value, rtol=tolerance, atol=tolerance, msg=lambda m: f"{key}: {m}")


@pytest.mark.parametrize("name", ["lstm-deep", "gru-deep"])
def test_a_forward_program_is_differentiated(name, build_dir, cleave_run, tmp_path):
    spec, _ = make(name)
    path, inputs = export(spec, tmp_path)
    (tmp_path / "forward").mkdir()
    spec.gradients = False
    forward, _ = export(spec, tmp_path / "forward")
    ours, _ = passed(build_dir, forward, "ours", "--autodiff")
    cleave_run.succeed(ours, "--against", path, "--inputs", inputs, "--seed", 3, "--tolerance", 1e-6)


def test_ranks_share_a_batch(build_dir, cleave_run, tmp_path):
    spec, _ = make("lstm-deep")
    path, inputs = export(spec, tmp_path)
    Plan({"dp": 2}, {"": DataParallel("dp")}).write(tmp_path / "plan.json")
    local, remarks = passed(build_dir, path, "local", f"--annotate-placements=plan={tmp_path / 'plan.json'}",
                            "--propagate-placements", "--partition", "--check-spmd-types")  # fmt: skip
    assert "replicated" not in remarks, remarks
    cleave_run.succeed(local, "--against", path, "--inputs", inputs, "--seed", 3, "--ranks", 2, "--tolerance", 1e-9)


def test_the_note(tmp_path):
    """In float32 eager mode computes an LSTM's layer by one kernel of oneDNN's, where that is there."""
    spec, _ = make("lstm")
    with pytest.warns(cleave.ExportNote, match="LSTMs are exported step by step"):
        cleave.export_spec(spec, tmp_path)
    with without_onednn(), warnings.catch_warnings():
        warnings.simplefilter("error")
        cleave.export_spec(spec, tmp_path)


def test_packed_sequences_are_refused(tmp_path):
    class Packed(Tagger):
        def forward(self, words, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True)
            return nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)[0]

    with pytest.raises(cleave.ExportError) as error:
        cleave.export(Packed("GRU", f32), (torch.zeros(2, 6, dtype=torch.int64), torch.tensor([6, 4])), out=tmp_path)
    for part in ("test_recurrent.py:", "found a packed sequence", "expected padded sequences"):
        assert part in str(error.value)
    assert len(str(error.value).splitlines()) == 1
