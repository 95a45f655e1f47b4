"""docs/python.md: its code, run in its order, does what the page says."""

import pathlib
import re
import subprocess
import sys

import cleave_path

PAGE = cleave_path.SOURCE / "docs" / "python.md"
RANKS = "torch.distributed.init_process_group"


def test_the_pages_code_runs(tmp_path):
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if RANKS not in block]
    assert len(blocks) == 2
    check = """
assert out.loss.item() < 0.5, out.loss
assert session.steps == 1 and abs(loss - F.cross_entropy(model(batch), targets).item()) < 1e-6
assert not torch.equal(session.weight("0.weight"), model[0].weight)
"""
    script = tmp_path / "page.py"
    script.write_text("\n".join([*blocks, check]))
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert pathlib.Path(tmp_path, "step.mlir").exists() and pathlib.Path(tmp_path, "step.safetensors").exists()


def test_the_ways_to_lay_out_are_those_that_run():
    """The page's lines for several ranks are calls of what test_compile_step_ranks.py trains by."""
    block = next(b for b in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if RANKS in b)
    calls = [line for line in block.splitlines() if "cleave.compile_step(" in line]
    assert len(calls) == 3
    for call in calls:
        compile(call.replace("{...}", "{}"), str(PAGE), "exec")
