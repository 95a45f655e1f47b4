"""compute-sanitizer over one evaluation of a model with compiled kernels: no access out of bounds, no race, nothing read
that was not written.

It watches LibTorch's kernels, too. Races inside of those alone are a note, since Cleave did not write them; addresses, and memory that
nothing has written, are what Cleave gives to any kernel.
"""

import os
import pathlib
import re
import shutil

from part import Skip, describe_failure
from part_models import load

SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
# A report's first lines name the kernels: "... at NAME(...)+0x10" or "... at NAME+0x10".
KERNEL = re.compile(r" (?:at|in) (\S+?)(?:\(|\+0x|$)", re.MULTILINE)


def reports(output):
    """The paragraphs that say something is wrong, without the prefix of their lines."""
    lines = [re.sub(r"^=+ ?", "", line) for line in output.splitlines() if line.startswith("=====")]
    return [p for p in "\n".join(lines).split("\n\n") if p.strip() and not SUMMARY.search(p) and "COMPUTE-SANITIZER" not in p]


def accused(report):
    """The kernels that a report names; none for a copy, say."""
    names = KERNEL.findall(report.split("Host Frame")[0].split("Saved host backtrace")[0])
    return [name for name in names if name != "block" and not name.startswith("0x")]


def run(part):
    if part.device != "cuda":
        raise Skip("compute-sanitizer needs a GPU")
    places = [shutil.which("compute-sanitizer")]
    places += [str(pathlib.Path(root) / "bin" / "compute-sanitizer")
               for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]  # fmt: skip
    tool = next((p for p in places if p and os.access(p, os.X_OK)), None)
    if tool is None:
        raise Skip("compute-sanitizer is not installed here")
    entry = next(e for e in part.manifest["models"] if e["folder"] == part.manifest["sanitized"]["folder"])
    ours = set(part.manifest["sanitized"]["kernels"])
    folder, _, file, _ = load(part, entry)
    variant = entry["variants"][-1]
    for check in ("memcheck", "racecheck", "initcheck"):
        result = part.cleave(
            folder / f"{variant}.mlirbc", "--weights", file, "--inputs", folder / "inputs.safetensors",
            before=[tool, "--tool", check, "--error-exitcode", "9"], seconds=60)  # fmt: skip
        output = result.stdout + result.stderr
        (part.work / f"{check}.txt").write_text(output)
        if "Device not supported" in output:
            raise Skip("compute-sanitizer does not support this machine")
        summary = SUMMARY.search(output)
        found = reports(output)
        others = [r for r in found if (names := accused(r)) and not ours & set(names)]
        if check == "racecheck" and summary and found and len(others) == len(found):
            kernels = sorted({name for r in others for name in accused(r)})
            part.note(f"{check}: {summary[0]} of LibTorch's own kernels: {', '.join(kernels)[:300]}")
            part.check(check, True, f"nothing of Cleave's {len(ours)} kernels; see the note on LibTorch's")
            continue
        detail = summary[0] if summary else describe_failure(result)
        first = next((r for r in found if r not in others), found[0] if found else "").strip().replace("\n", "; ")[:300]
        part.check(check, result.returncode == 0 and summary is not None, f"{detail}{': ' if first else ''}{first}")
