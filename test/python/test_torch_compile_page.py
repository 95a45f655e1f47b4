"""docs/torch-compile.md: its code, run in its order, does what the page says."""

import re
import subprocess
import sys

import cleave_path
from cleave import backend

PAGE = (cleave_path.SOURCE / "docs" / "torch-compile.md").read_text()


def test_the_pages_code_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    check = """
assert loss.item() < 0.1, loss
assert "exec.launch" in str(forward) and "exec.launch" in str(backward)
assert torch._inductor.config.custom_partitioner_fn.uuid().startswith("cleave-")
"""
    script = tmp_path / "page.py"
    script.write_text("\n".join([*blocks, check]))
    ran = subprocess.run([sys.executable, "-W", "error::UserWarning", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_it_lists_the_options():
    assert re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE) == list(backend._OPTIONS)
