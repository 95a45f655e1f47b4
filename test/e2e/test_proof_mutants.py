"""bench/proof_mutants.py: it goes on from its log, and finds proofs that are false."""

import json
import subprocess
import sys

import cleave_path

BENCH = cleave_path.SOURCE / "bench/proof_mutants.py"


def run(build, *options):
    return subprocess.run(
        [sys.executable, BENCH, "--build", build, *map(str, options)], capture_output=True, text=True, timeout=120
    )


def test_a_later_run_goes_on(build_dir, tmp_path):
    log = tmp_path / "log.jsonl"
    programs = ["--programs", "ring,classes", "--log", log]
    done = run(build_dir, *programs, "--mutants", 1)
    assert done.returncode == 0, done.stderr
    first = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["program"], row["round"]) for row in first if not row["typed"]] == [("ring", 0), ("classes", 0)]
    assert any(row["typed"] for row in first)
    more = run(build_dir, *programs, "--mutants", 600)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert rows[: len(first)] == first and {row["round"] for row in rows} == {0, 1}
    made = sum(counts["made"] for row in rows for counts in row["kinds"].values())
    assert made >= 600 and f"{made} changed programs, of 2 programs" in more.stdout
    assert run(build_dir, *programs, "--mutants", 600).stdout == more.stdout
    differ = sum(counts.get("differ", 0) for row in rows for counts in row["kinds"].values())
    assert differ > 200 and not any(row["wrong"] for row in rows)


def test_rare_kinds_are_drawn_until_there_are_enough(build_dir, tmp_path):
    log = tmp_path / "log.jsonl"
    done = run(build_dir, "--programs", "causal,ring", "--log", log, "--mutants", 1, "--each", 2)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    made = {kind: [row["kinds"].get(kind, {}).get("made", 0) for row in rows] for kind in ("wrong dimension", "wrong shift")}
    assert made["wrong dimension"][0] == 1 and sum(made["wrong dimension"]) >= 2
    # Others there are enough of, and a ring has none of these.
    assert {row["program"] for row in rows if row["round"] > 0} == {"causal"}
    assert sum(made["wrong shift"]) > 2


def test_a_false_proof_is_an_error(build_dir, tmp_path):
    tool = tmp_path / "bin/cleave-prove"
    tool.parent.mkdir()
    # An average is taken for a sum.
    tool.write_text(f'#!/bin/sh\nexec {build_dir}/bin/cleave-prove --break-lemma=reduce-mean "$@"\n')
    tool.chmod(0o755)
    (tool.parent / "cleave-opt").symlink_to(build_dir / "bin/cleave-opt")
    done = run(tmp_path, "--programs", "tensor_parallel", "--mutants", 1)
    assert done.returncode == 1 and "func.func @rank" in done.stderr, done.stdout


def test_unknown_programs_are_refused(build_dir):
    done = run(build_dir, "--programs", "rings")
    assert done.returncode == 2 and "no program rings; there are tensor_parallel," in done.stderr
