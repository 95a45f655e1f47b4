"""`cleave-opt --prove-each`: what each pass of the documented pipelines does to an exported program is proved."""

import re
import subprocess

import placement_cases as cases
import pytest
from training import ENVIRONMENT

SPLIT = ["--partition-joint", "--split-backward", "--cse"]
RECOMPUTED = ["--partition-joint=policy=min-cut recompute=all", "--canonicalize"]
BUCKETS = ["--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.005", "--simplify-communication"]


@pytest.fixture(scope="module")
def run(build_dir, model):
    """What is said of each pass that changed something, in order."""

    def opt(name, mesh, passes, option="--prove-each", status=0):
        program = model(name).program
        placed = []
        if mesh:
            plan = cases.plan(name, mesh).write(program.with_name(f"each_{re.sub(r'[^a-z0-9]+', '_', mesh)}.json"))
            placed = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", program, option, *placed, *passes, "-o", "/dev/null"],
            capture_output=True, text=True, env=ENVIRONMENT, timeout=120,
        )  # fmt: skip
        assert result.returncode == status, result.stderr
        said = re.findall(r"(remark|error): (--[\w-]+) (is proved|is not proved|changes)(.*)", result.stderr)
        return [(name, verdict, rest) for _, name, verdict, rest in said], result.stderr

    return opt


@pytest.mark.parametrize(
    "name, mesh, passes, proved",
    [
        ("gpt_untied", "", SPLIT, 2),
        ("gpt_untied", "", ["--outline-stages=count=2 balance=cost"], 1),
        ("gpt_checkpointed", "", RECOMPUTED, 1),
        ("gpt_untied", "tp2", SPLIT, 5),
        ("gpt_untied", "dp2", BUCKETS, 4),
        ("llama", "tp2, sequence", RECOMPUTED, 4),
        ("llama", "dp2 x tp2", SPLIT, 5),
        ("llama", "fsdp2", ["--split-fsdp-collectives", "--cse"], 4),
        ("gpt_dropout", "dp2", [], 3),
    ],
)
def test_each_pass_is_proved(run, name, mesh, passes, proved):
    """An unknown one would be an error."""
    said, _ = run(name, mesh, passes, "--prove-each=strict")
    assert [verdict for _, verdict, _ in said].count("is proved") >= proved, said
    for pass_name, _, rest in said:
        results, seconds = re.search(r": (\d+) results.* \(([\d.]+) s\)", rest).groups()
        assert int(results) > 80 and float(seconds) < 5, (pass_name, rest)


def test_what_is_unknown_is_said_and_passes_go_on(run):
    """Clipping changes the step."""
    said, _ = run("llama", "tp2", ["--async-tp=chunks=2 min-mb=0", "--cse", "--clip-gradients"])
    verdicts = {name: (verdict, rest) for name, verdict, rest in said}
    assert verdicts["--partition"][0] == "is proved"
    assert verdicts["--clip-gradients"][0] == "is not proved"
    assert "of 'update'" in verdicts["--clip-gradients"][1]


def test_an_error_names_the_pass(run):
    _, text = run("gpt_untied", "dp2", ["--clip-gradients", "--cse"], "--prove-each=strict", status=1)
    assert "error: --clip-gradients is not proved to preserve the step" in text
    assert text.rstrip().endswith("the proof after --clip-gradients failed")
