"""docs/python.md and docs/tutorial.md: their code, run in its order, does what the pages say."""

import os
import pathlib
import re
import subprocess
import sys

import cleave_path
import forked_ranks
import pytest

PAGE = cleave_path.SOURCE / "docs" / "python.md"
RANKS = "torch.distributed.init_process_group"


def test_the_pages_code_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    # What takes several ranks is run below, and the Trainer's layouts by test_trainer.py.
    blocks = [block for block in blocks if RANKS not in block and "Trainer(" not in block]
    assert len(blocks) == 3
    check = """
assert out.loss.item() < 0.5, out.loss
assert session.steps == 1 and abs(loss - F.cross_entropy(model(batch), targets).item()) < 1e-6
assert not torch.equal(session.weight("0.weight"), model[0].weight)
assert str(program).count('approximate = "tanh"') == 2 and costs.parameter_bytes == 4 * (9 * 64 + 65 * 4)
"""
    script = tmp_path / "page.py"
    script.write_text("\n".join([*blocks, check]))
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert pathlib.Path(tmp_path, "step.mlir").exists() and pathlib.Path(tmp_path, "step.safetensors").exists()


def layouts():
    """The page's ways to lay a step out: how many ranks each is for, and its lines."""
    first, *_ = blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    begin, *ways = re.split(r"\n(?=plan =|pipeline =|step =)", next(block for block in blocks if RANKS in block))
    setup, lines = first[: first.index("step =")] + begin + "\n", ""
    for way in ways:
        lines += way + "\n"
        if ranks := re.search(r"# (\d) ranks$", way.rstrip()):
            yield int(ranks[1]), setup + lines
            lines = ""


@pytest.mark.parametrize(("ranks", "code"), layouts(), ids=["dp", "dp x tp", "pipeline"])
def test_the_ways_to_lay_out(tmp_path, ranks, code):
    check = """
examples = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))
first = step(examples, examples[:, :4].argmax(1)).loss.item()
for _ in range(5):
    out = step(examples, examples[:, :4].argmax(1))
assert 0 < out.loss.item() < first, (first, out.loss)
torch.distributed.destroy_process_group()
"""
    script = tmp_path / "ways.py"
    script.write_text(code + check)
    ran = forked_ranks.run(ranks, script, environment={"OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stderr[-4000:]


def test_the_tutorial(tmp_path):
    text = (cleave_path.SOURCE / "docs" / "tutorial.md").read_text()
    names = iter(re.findall(r"`(\w+\.py)`", text))
    commands = []
    for kind, block in re.findall(r"```(python|sh)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            (tmp_path / next(names)).write_text(block)
        else:
            commands.append(block)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.py", "one.py", "ranks.py", "task.py"]
    assert len(commands) == 3
    environment = {**os.environ, "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])}
    for command in commands:
        ran = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr[-4000:]}"
    assert "untrained" in ran.stdout
