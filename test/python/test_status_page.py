"""The page of a run's status, in headless Chromium: numbers, curves, and who waits for whom."""

import json

import cleave_path  # noqa: F401
import pytest
from cleave import status_page
from test_timeline_page import BROWSER, open_page

STATUS = {
    "version": 1, "program": "a </script> GPT", "state": "training", "started": 1.7e9, "updated": 1.7e9 + 90, "step": 40,
    "steps": 100, "loss": 2.5, "ms": 20.0, "tokens_per_s": 1234.0, "lr": [3e-4, 0.01], "remaining_s": 75.0, "mfu": 0.412,
    "eval_loss": 2.75, "best": {"step": 30, "eval_loss": 2.625}, "memory_bytes": 3 * 2**20,
    "losses": [[1, 5.0], [20, 3.0], [40, 2.5]], "eval_losses": [[20, 3.5], [40, 2.75]],
    "ranks": [
        {"rank": 0, "host": "n1", "pid": 17, "responds": True, "operation": "all-reduce of w", "waits_for": [1]},
        {"rank": 1, "host": "n2", "pid": 18, "responds": False, "waits_for": []},
    ],
}  # fmt: skip

PROBE = """
<script>
const out = document.createElement("pre");
out.id = "result";
out.textContent = JSON.stringify({
  title: document.title, text: document.body.innerText, curves: document.querySelectorAll("#curve path").length,
  late: [...document.querySelectorAll("tr.late")].map((row) => row.firstChild.textContent),
  width: $("bar").firstElementChild.style.width, fits: document.documentElement.scrollWidth <= window.innerWidth });
document.body.append(out);
</script>
</html>
"""


def write(tmp_path, status):
    path = tmp_path / "status.json"
    path.write_text(status if isinstance(status, str) else json.dumps(status))
    return path


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page(tmp_path):
    page = tmp_path / "page.html"
    assert status_page.main([str(write(tmp_path, STATUS)), "-o", str(page)]) == 0
    page.write_text(page.read_text() + "</html>")
    result = open_page(page, PROBE, tmp_path)
    assert result["title"] == "a </script> GPT: step 40" and result["width"] == "40%" and result["fits"]
    for text in ("step 40 of 100, 1:15 left", "41.2 %", "3 MiB", "3e-4, 0.01", "lowest, after step 30", "2.625", "1,234",
                 "all-reduce of w", "does not respond"):  # fmt: skip
        assert text in result["text"], text
    assert result["curves"] == 2 and result["late"] == ["1"]


@pytest.mark.parametrize(
    "status, message",
    [
        ("{", "expected JSON"),
        ("[]", "expected what cleave-run --status writes"),
        ({"version": 1}, "expected what cleave-run --status writes"),
        ({**STATUS, "version": 2}, "expected version 1 of the status, found 2"),
    ],
)
def test_what_is_no_status(tmp_path, capsys, status, message):
    assert status_page.main([str(write(tmp_path, status)), "-o", str(tmp_path / "page.html")]) == 1
    assert message in capsys.readouterr().err and not (tmp_path / "page.html").exists()


def test_files_that_cannot_be_used(tmp_path, capsys):
    assert status_page.main([str(tmp_path / "nowhere.json"), "-o", str(tmp_path / "page.html")]) == 1
    assert "cannot read" in capsys.readouterr().err
    assert status_page.main([str(write(tmp_path, STATUS)), "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert status_page.main([str(write(tmp_path, STATUS)), "--port", "70000"]) == 1
    assert "cannot listen on port 70000" in capsys.readouterr().err
