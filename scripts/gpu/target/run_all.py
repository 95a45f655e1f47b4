"""Runs everything that the bundle can show on this machine, and writes results.json, results.md and log.txt.

    ./run_all                        # on a machine with one NVIDIA GPU and PyTorch
    ./run_all --device cpu           # the same parts without one
    ./run_all --parts models,llama   # some of them

Each part is a process of its own with a time limit: one that fails, hangs or crashes leaves the others alone. Needs
python3 with the PyTorch that Cleave was built for, and nothing else. The exit status is 0 if every part that ran passed.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
# In the order of what matters most if time runs out: name and most seconds.
PARTS = {
    "environment": 30,
    "unit": 60,
    "models": 130,
    "bfloat16": 100,
    "llama": 200,
    "kernels": 70,
    "training": 80,
    "options": 80,
    "gloo": 60,
    "nccl": 60,
    "sanitizer": 90,
}
# These measure, and have the machine to themselves.
ALONE = {"environment", "llama", "kernels"}
TOTAL = 530


def run_part(name, options, seconds, log):
    """A part's result; `status` is passed, failed, skipped or one of what ended it."""
    work = options.out / "work" / name
    work.mkdir(parents=True, exist_ok=True)
    file = work / "result.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, HERE / "part.py", name, "--device", options.device, "--bundle", options.bundle,
               "--work", work]  # fmt: skip
    start = time.monotonic()
    # A session of its own, so that what the part started ends with it.
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True)  # fmt: skip
    ended = None
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        ended = f"ended after {seconds:.0f} s"
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
    log.write(f"\n===== {name}\n{output}")  # whole, whatever runs beside it
    log.flush()
    result = json.loads(file.read_text()) if file.exists() else {"checks": [], "tables": {}, "notes": []}
    if ended or (process.returncode and not result.get("failure")):
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        result["failure"] = ended or f"its process ended with {how}: {output.strip()[-300:] or 'no output'}"
    result["seconds"] = round(time.monotonic() - start, 1)
    bad = [check for check in result["checks"] if not check["ok"]]
    if result.get("failure") or bad:
        result["status"] = "failed"
    elif result.get("skipped"):
        result["status"] = "skipped"
    else:
        result["status"] = "passed" if result["checks"] else "failed"
        if not result["checks"]:
            result["failure"] = "it checked nothing"
    return result


def summary(name, result):
    checks = result["checks"]
    text = f"{result['status']:8} {name:12} {sum(c['ok'] for c in checks)} of {len(checks)} checks, {result['seconds']} s"
    reason = result.get("failure") or result.get("skipped")
    if not reason and result["status"] == "failed":
        first = next(c for c in checks if not c["ok"])
        reason = f"{first['name']}: {first['detail']}"
    return text + (f": {reason.strip().splitlines()[-1]}" if reason else "")


def markdown(results):
    lines = [f"# Cleave on {results['machine']}", "", f"{results['date']}, commit {results['commit']}, device {results['device']}", ""]
    for name, result in results["parts"].items():
        lines += [f"## {name}", "", summary(name, result), ""]
        lines += [f"- {note}" for note in result["notes"]]
        for title, rows in result["tables"].items():
            lines += ["", f"### {title}", ""]
            columns = list(dict.fromkeys(column for row in rows for column in row))
            lines.append("| " + " | ".join(columns) + " |")
            lines.append("|" + " --- |" * len(columns))
            lines += ["| " + " | ".join(str(row.get(c, "")) for c in columns) + " |" for row in rows]
        failed = [c for c in result["checks"] if not c["ok"]]
        if failed:
            lines += ["", "Failed:", ""]
            lines += [f"- {c['name']}: {c['detail']}" for c in failed]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas (default: all)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT", "results")))
    parser.add_argument("--jobs", type=int, default=max(1, min(6, (os.cpu_count() or 1) // 2)),
                        help="parts that measure nothing run so many at a time (default: half of the cores, at most 6)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=TOTAL, help=f"for all parts together (default: {TOTAL})")
    options = parser.parse_args()
    options.bundle = HERE.parent
    if options.jobs < 1:
        parser.error(f"--jobs: expected at least 1, found {options.jobs}")
    parts = options.parts.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"--parts: expected some of {', '.join(PARTS)}, found {', '.join(unknown)}")
    manifest = json.loads((options.bundle / "manifest.json").read_text())
    if options.device not in manifest["devices"]:
        parser.error(f"--device: this bundle is for {', '.join(manifest['devices'])}, found {options.device}")
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)

    results = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
               "commit": manifest["commit"], "device": options.device, "machine": "an unknown machine", "parts": {}}  # fmt: skip
    deadline = time.monotonic() + options.seconds
    guard = threading.Lock()

    def show(name):
        seconds = min(PARTS[name] * (1 if name in ALONE else options.jobs**0.5), deadline - time.monotonic())
        if seconds < 5:
            result = {"checks": [], "tables": {}, "notes": [], "seconds": 0, "status": "skipped",
                      "skipped": f"no time is left of {options.seconds:.0f} s"}  # fmt: skip
        else:
            result = run_part(name, options, seconds, log)
        with guard:
            results["parts"][name] = result
            results["machine"] = result.get("machine", results["machine"])
            results["parts"] = {each: results["parts"][each] for each in parts if each in results["parts"]}
            print(summary(name, result), flush=True)
            # After every part, so that nothing is lost if the machine is.
            (options.out / "results.json").write_text(json.dumps(results, indent=1))
            (options.out / "results.md").write_text(markdown(results))

    with open(options.out / "log.txt", "w") as log:
        together = [name for name in parts if options.jobs > 1 and name not in ALONE]
        if "environment" in parts:
            show("environment")
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(show, together))
        for name in parts:
            if name not in results["parts"]:
                show(name)
    states = [result["status"] for result in results["parts"].values()]
    print(f"{states.count('passed')} passed, {states.count('failed')} failed, {states.count('skipped')} skipped; "
          f"{options.out}/results.md")  # fmt: skip
    return 1 if "failed" in states or "passed" not in states else 0


if __name__ == "__main__":
    sys.exit(main())
