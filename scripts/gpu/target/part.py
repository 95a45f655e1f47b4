"""One part of run_all, in a process of its own: `part.py NAME --device D --bundle B --work W` writes W/result.json."""

import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback

import torch


class Failure(Exception):
    """What a part reports as its failure, without a trace."""


class Skip(Exception):
    """Why a part has nothing to do here."""


class Part:
    """What a part is given, and where it puts its results."""

    def __init__(self, options):
        self.device, self.bundle, self.work = options.device, options.bundle, options.work
        self.manifest = json.loads((self.bundle / "manifest.json").read_text())
        self.result = {"checks": [], "tables": {}, "notes": []}
        # With matrix products in tf32 nothing could be compared to 1e-5.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "4")))

    def check(self, name, ok, detail):
        self.result["checks"].append({"name": name, "ok": bool(ok), "detail": str(detail)})
        print(f"{'ok' if ok else 'NOT OK'}: {name}: {detail}", flush=True)
        self.save()

    def row(self, table, **values):
        self.result["tables"].setdefault(table, []).append(values)
        self.save()

    def note(self, text):
        self.result["notes"].append(text)
        self.save()

    def save(self):
        (self.work / "result.json").write_text(json.dumps(self.result))

    def environment(self):
        """Where the executable finds LibTorch, and the plugin NVIDIA's libraries: in this Python's installation."""
        packages = pathlib.Path(torch.__file__).resolve().parents[1]
        libraries = [self.bundle / "lib", packages / "torch" / "lib", *sorted(packages.glob("nvidia/*/lib"))]
        if os.environ.get("LD_LIBRARY_PATH"):
            libraries.append(os.environ["LD_LIBRARY_PATH"])
        return {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
            # No tf32 in Cleave's cuBLAS and cuDNN calls either.
            "NVIDIA_TF32_OVERRIDE": "0",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "4"),
        }

    def cleave(self, *arguments, seconds=60, before=(), device=True, environment=None):
        """Runs cleave-run on this part's device; its process, ended or not. Prints what it ran."""
        command = [*before, self.bundle / "bin" / "cleave-run", *arguments]
        if device and self.device != "cpu":
            command += ["--device", self.device]
        command = [str(part) for part in command]
        print("$", " ".join(command), flush=True)
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=seconds,
                env=self.environment() | (environment or {}))  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failure(f"cleave-run did not end within {seconds} s: {' '.join(command[1:4])}") from None
        except OSError as error:
            raise Failure(f"cleave-run cannot be started: {error}") from None
        if result.returncode:
            print(result.stdout[-1000:], result.stderr[-3000:], flush=True)
        return result

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def seconds(self, function, repeats, warmup=3):
        """Median seconds of a call, by events on a GPU."""
        for _ in range(warmup):
            function()
        times = []
        for _ in range(repeats):
            if self.device == "cuda":
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                function()
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) / 1e3)
            else:
                begin = time.perf_counter()
                function()
                times.append(time.perf_counter() - begin)
        return sorted(times)[len(times) // 2]


def describe_failure(result):
    """Why cleave-run failed: its first error, not what its supervisor says of it."""
    lines = [line for line in result.stderr.strip().splitlines() if line] or ["no message"]
    errors = [line for line in lines if "error: " in line] or lines[-1:]
    return f"status {result.returncode}: {errors[0].strip()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    for name in ("bundle", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--device", required=True)
    options = parser.parse_args()
    part = Part(options)
    try:
        if options.device == "cuda" and not torch.cuda.is_available():
            raise Failure("PyTorch finds no CUDA device")
        importlib.import_module(f"part_{options.name}").run(part)
    except Skip as reason:
        part.result["skipped"] = str(reason)
    except Failure as failure:
        part.result["failure"] = str(failure)
    except Exception as error:
        traceback.print_exc()
        part.result["failure"] = f"{type(error).__name__}: {error}"
    part.save()
    return 1 if part.result.get("failure") else 0


if __name__ == "__main__":
    # The parts import this module's classes by its name.
    sys.modules["part"] = sys.modules["__main__"]
    sys.exit(main())
