"""Runs cleave-run and reads what it wrote: what the end-to-end tests share."""

import os
import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python"))
import cleave_path  # noqa: E402,F401

from cleave.tensor_files import load_file, save_file  # noqa: E402


class CleaveRun:
    """The executable of a build. Calls take one thread, so that sums have one order."""

    def __init__(self, build_dir):
        self.path = build_dir / "bin" / "cleave-run"

    def __call__(self, *arguments, timeout=120):
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        return subprocess.run(
            [self.path, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
        )

    def succeed(self, *arguments, **options):
        """Runs it and returns what it printed; its errors are the test's."""
        result = self(*arguments, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def plan(self, program, *options):
        """By rank of its schedule, what a dry run plans: bytes of the device and of the host at a step's peak."""
        text = self.succeed(program, "--dry-run", *options)
        found = re.findall(r"^  peak of a step .* (\d+)$(?:\n  peak in host memory .* (\d+)$)?", text, re.M)
        return [(int(device), int(host or 0)) for device, host in found]

    def fail(self, *arguments, **options):
        """Runs it and returns its message, which must be an error and no crash."""
        result = self(*arguments, **options)
        assert result.returncode == 1, (result.returncode, result.stderr)
        assert "error: " in result.stderr
        for trace in ("Stack dump", "Aborted", "terminate called", "Assertion"):
            assert trace not in result.stderr, result.stderr
        return result.stderr

    def evaluate(self, program, inputs, folder, *arguments):
        """Evaluates `program` on tensors by name; returns the dumped tensors."""
        save_file({n: t.contiguous() for n, t in inputs.items()}, folder / "inputs.safetensors")
        dump = folder / "dump.safetensors"
        self.succeed(
            program, "--inputs", folder / "inputs.safetensors", "--dump", dump, *arguments
        )
        return load_file(dump)
