"""Plans of lowered programs, and what becomes of them when something is changed.

Every event of a plan is needed: without any one of them --verify-exec reports a hazard. So are all
places in memory: a result over an operand of its own op is found, and so are communicator calls that
have changed places.
"""

import random
import re
import subprocess

import pytest
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel
from combinations_cover import covered, seed
from test_overlap import random_program

CUDA = "--lower-to-exec=target=cuda chip=sm_90"
LAYER = "model.model.layers.*."
TP = [(LAYER + module, style()) for module, style in [
    ("self_attn.{q,k,v}_proj", ColwiseParallel), ("mlp.{gate,up}_proj", ColwiseParallel),
    ("self_attn.o_proj", RowwiseParallel), ("mlp.down_proj", RowwiseParallel)]]  # fmt: skip
OVERLAP, BUCKETS = "--overlap-communication", "--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.02"
CASES = {
    "dp2": (None, ["--sync-gradients=axis=dp", BUCKETS]),
    "dp2, summed at the end": (None, ["--sync-gradients=axis=dp"]),
    "tp2": (Plan({"tp": 2}, TP), ["--propagate-placements", "--partition"]),
    "tp2, overlapped": (Plan({"tp": 2}, TP), ["--propagate-placements", "--partition", OVERLAP]),
    "fsdp2": (Plan({"dp": 2}, {"": FSDP()}), ["--propagate-placements", "--partition", OVERLAP]),
    "stages": (None, ["--outline-stages=count=2", "--split-backward", "--sync-gradients=axis=dp",
                      BUCKETS]),
}  # fmt: skip


@pytest.fixture(scope="module")
def opt(build_dir):
    def run(*arguments, **options):
        command = [build_dir / "bin" / "cleave-opt", *arguments]
        return subprocess.run(command, capture_output=True, text=True, **options)

    return run


@pytest.fixture(scope="module")
def lowered(opt, program, tmp_path_factory):
    """The text of a lowered program."""
    folder = tmp_path_factory.mktemp("lowered")

    def get(name, lower):
        _, source = program("llama")
        plan, passes = CASES[name]
        if plan:
            path = folder / "plan.json"
            plan.write(path)
            passes = [f"--annotate-placements=plan={path}", *passes]
        result = opt(source, *passes, lower)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return get


def errors_by_variant(opt, variants, folder):
    """The errors that --verify-exec has for each of some programs, all checked by one process."""
    path, separator = folder / "variants.mlir", "// -----"
    path.write_text(f"\n{separator}\n".join(variants))
    starts = [1]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line == separator:
            starts.append(number + 1)
    result = opt(path, "--split-input-file", "--error-limit=0", "--verify-exec", "-o", folder / "none")
    errors = [[] for _ in variants]
    for line, text in re.findall(rf"{re.escape(str(path))}:(\d+):\d+: error: (.*)", result.stderr):
        index = sum(start <= int(line) for start in starts) - 1
        errors[index].append(text)
    assert (result.returncode != 0) == any(errors), result.stderr[-2000:]
    return errors


def without_events(text):
    """The program without each of its events, one at a time."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        record = re.match(r"\s*(%\S+) = exec\.record", line)
        if record:
            # Other functions use the same names.
            wait = f"exec.wait {record[1]} on"
            waited = next(i for i in range(index, len(lines)) if wait in lines[i])
            yield "\n".join(line for i, line in enumerate(lines) if i not in (index, waited))


@covered({"name": list(CASES), "lower": {"cpu": "--lower-to-exec", "cuda": CUDA}}, strength=1)
def test_every_event_is_needed(opt, lowered, tmp_path, name, lower):
    text = lowered(name, lower)
    variants = list(without_events(text))
    assert variants
    for event, errors in enumerate(errors_by_variant(opt, [text, *variants], tmp_path)):
        if event == 0:
            assert not errors
        else:
            assert any("without waiting for" in error for error in errors), event - 1


def moved(text):
    """The program with each planned result in turn over an operand of its own op."""
    lines, places = text.splitlines(), {}
    for index, line in enumerate(lines):
        if "func.func" in line:
            places = {}
        found = re.match(r"\s*(%\S+) = ([\w.]+)[^{]*\{.*exec.memory = \[#exec.at<(\d+)>\]", line)
        if not found:
            continue
        name, _, offset = found.groups()
        operands = re.findall(r"%[\w#]+", line.split(" = ", 1)[1])
        for operand in operands:
            if places.get(operand, offset) != offset:
                changed = line.replace(f"#exec.at<{offset}>", f"#exec.at<{places[operand]}>")
                yield "\n".join([*lines[:index], changed, *lines[index + 1 :]])
                break
        places[name] = offset


@pytest.mark.parametrize("name", ["dp2", "fsdp2"])
def test_results_over_what_is_still_needed_are_found(opt, lowered, tmp_path, name):
    variants = list(moved(lowered(name, "--lower-to-exec")))
    assert len(variants) > 30
    for errors in errors_by_variant(opt, variants, tmp_path):
        assert any("still lies" in error or "end within the arena" in error for error in errors)


def test_communicator_calls_keep_their_order(opt, lowered, tmp_path):
    text = lowered("fsdp2", CUDA)
    numbers = sorted({int(n) for n in re.findall(r"exec\.call = (\d+)", text)})
    assert len(numbers) > 10
    variants = []
    for first in numbers[:-1]:
        swapped = {first: first + 1, first + 1: first}
        variants.append(
            re.sub(r"exec\.call = (\d+)",
                   lambda m: f"exec.call = {swapped.get(int(m[1]), int(m[1]))}", text)
        )  # fmt: skip
    for errors in errors_by_variant(opt, variants, tmp_path):
        assert any("expects to be communicator call" in error for error in errors)


@pytest.mark.parametrize("lower", ["--lower-to-exec", CUDA], ids=["cpu", "cuda"])
def test_random_programs(opt, tmp_path, lower):
    generator = random.Random(seed())
    for _ in range(3):
        source = tmp_path / "random.mlir"
        source.write_text(random_program(generator, 80))
        for passes in ([], [OVERLAP]):
            result = opt(source, *passes, lower)
            assert result.returncode == 0, result.stderr
            text = result.stdout
            programs = [text, *without_events(text), *moved(text)]
            first, *others = errors_by_variant(opt, programs, tmp_path)
            assert not first
            assert all(others)
