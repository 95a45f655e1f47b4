"""Running cleave-opt and cleave-run on generated programs."""

import bisect
import os
import re
import subprocess

from safetensors.torch import load_file, save_file

ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")


class Tools:
    """The tools of a build; `folder` takes what they read and write."""

    def __init__(self, build, folder):
        self.build = build
        self.folder = folder

    def opt(self, text, *passes, name="program.mlir"):
        """Runs cleave-opt; returns its status, output and messages."""
        path = self.folder / name
        path.write_text(text)
        result = subprocess.run(
            [self.build / "bin" / "cleave-opt", path, *passes],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
        assert result.returncode in (0, 1), (result.returncode, result.stderr[-2000:])
        return result.returncode, result.stdout, result.stderr

    def transform(self, text, *passes):
        """What the passes make of a program that they must accept."""
        status, output, messages = self.opt(text, *passes)
        assert status == 0, messages[:4000]
        return output

    def refusals(self, texts, *passes):
        """Runs many programs in one process. For each, its first error or None.

        Programs are separated by comment lines; a message's line number tells whose it is.
        """
        joined, starts = "", []
        for text in texts:
            starts.append(joined.count("\n") + 1)
            joined += text.rstrip("\n") + "\n// -----\n"
        _, _, messages = self.opt(
            joined, "-split-input-file", "--error-limit=0", "-o", os.devnull, *passes
        )
        found = [None] * len(texts)
        for match in re.finditer(
            r"program\.mlir:(\d+)(?: offset )?:[\d:]+: error: (.*)$", messages, re.M
        ):
            line = int(match[1])
            index = bisect.bisect_right(starts, line + 1) - 1
            found[index] = found[index] or match[2]
        return found

    def run(self, text, weights, inputs, ranks, *options):
        """Evaluates a program on `ranks` ranks, threads of one process; returns its results by name."""
        result = self.start(text, weights, inputs, ranks, *options)
        assert result.returncode == 0, result.stderr[-4000:]
        return load_file(self.folder / "dump.safetensors")

    def start(self, text, weights, inputs, ranks, *options):
        """The same, whatever becomes of it; returns the finished process."""
        program = self.folder / "run.mlir"
        program.write_text(text)
        for name, tensors in (
            ("run", weights),
            ("inputs", inputs),
        ):  # a file refuses tensors that share memory
            save_file(
                {n: t.clone() for n, t in tensors.items()}, self.folder / f"{name}.safetensors"
            )
        command = [
            self.build / "bin" / "cleave-run",
            program,
            *("--weights", self.folder / "run.safetensors"),
            *("--inputs", self.folder / "inputs.safetensors"),
            *("--dump", self.folder / "dump.safetensors"),
            *("--ranks", str(ranks), "--ranks-as", "threads"),
            *options,
        ]
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
