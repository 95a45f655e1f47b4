"""The picture of placements, in headless Chromium: modules, tensors, collectives, why."""

import json
import re
import subprocess

import cleave_path  # noqa: F401
import pytest
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, placement_page
from test_timeline_page import BROWSER, open_page

# Appended to the page: acts as a user would, and leaves what came of it in the document.
PROBE = """
<script>
const result = { title: document.title, facts: $("facts").textContent, legend: $("legend").textContent };
const names = () => [...document.querySelectorAll("#tree .name")].map((n) => n.textContent);
const pick = (name) => [...document.querySelectorAll("#tree .node")].find((n) => n.querySelector(".name").textContent === name).click();
const rows = () => [...document.querySelectorAll("#list .row")].map((r) => r.textContent);
const choose = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change")); };
result.tree = names();
for (const name of ["h", "0", "mlp", "c_fc"]) pick(name);
result.module = document.querySelector("#list .head").firstChild.textContent;
result.rows = rows();
[...document.querySelectorAll("#list .row")].find((r) => r.textContent.startsWith("aten.addmm")).click();
result.detail = $("detail").innerText;
result.slices = [...document.querySelectorAll("#ranks code")].map((c) => c.textContent);
$("detail").querySelector(".link").click();
result.followed = $("detail").querySelector("h2").textContent;
pick("c_fc");
[...document.querySelectorAll("#list .row.move")].find((r) => r.textContent.includes("all_gather")).click();
result.move = $("detail").innerText;
$("moves").click();
result.moves = rows();
$("moves").click();
choose("partof", "backward");
result.backward = rows();
choose("partof", "");
pick("the program");
$("search").value = "ln_f.weight";
$("search").dispatchEvent(new Event("input"));
result.found = rows();
$("search").value = "";
choose("function", "1");
result.update = $("facts").textContent;
const wide = document.documentElement.scrollWidth;
result.fits = wide <= window.innerWidth;
const out = document.createElement("pre");
out.id = "result";
out.textContent = JSON.stringify(result);
document.body.append(out);
</script>
"""


@pytest.fixture(scope="module")
def explanation(build_dir, exported, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    plan = Plan({"dp": 2, "tp": 2}, [
        ("h.*.attn.c_attn", ColwiseParallel()), ("h.*.attn.c_proj", RowwiseParallel()),
        ("h.*.mlp.c_fc", ColwiseParallel()), ("h.*.mlp.c_proj", RowwiseParallel()), ("", FSDP()),
    ]).write(folder / "plan.json")  # fmt: skip
    path = folder / "why.json"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", exported("gpt_tied").path, f"--annotate-placements=plan={plan}",
         f"--propagate-placements=explain-json={path}", "-o", "/dev/null"],
        check=True, capture_output=True)  # fmt: skip
    return path


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page_shows_modules_tensors_and_collectives(explanation, tmp_path):
    page = tmp_path / "page.html"
    assert placement_page.main([str(explanation), "-o", str(page), "--name", "a </script> GPT"]) == 0
    text = page.read_text()
    assert "http" not in text, "the page is self-contained"
    result = open_page(page, PROBE, tmp_path)

    data = json.loads(explanation.read_text())
    microbatch = next(f for f in data["functions"] if f["phase"] == "microbatch")
    sent = [m for m in microbatch["redistributions"] if m["bytes"]] + [f for f in microbatch["forms"] if f["bytes"]]
    assert result["title"] == "a </script> GPT on dp = 2 × tp = 2"
    assert f"{len(microbatch['tensors'])} tensors" in result["facts"]
    assert f"{len(sent)} collectives" in result["facts"]
    assert result["fits"]

    assert result["tree"][0] == "the program" and {"wte", "h", "ln_f"} <= set(result["tree"])
    assert result["module"] == "h.0.mlp.c_fc"
    weight = next(row for row in result["rows"] if row.startswith("parameter h.0.mlp.c_fc.weight"))
    assert "128×32 f32" in weight and "dp S(0)₂" in weight and "tp S(0)₁" in weight
    assert any("all_gather over dp" in row for row in result["rows"])

    # The product's result is cut along the batch over dp and along its features over tp.
    assert "on a rank 32×64" in result["detail"], result["detail"]
    assert result["slices"] == ["[0:32, 0:64]", "[0:32, 64:128]", "[32:64, 0:64]", "[32:64, 64:128]"]
    assert "Why S(0) on dp" in result["detail"] and re.search(
        r"It is annotated by rules\[2\] \(\S*test_placement_page.py:\d+\)\.", result["detail"]), result["detail"]
    assert re.search(r"R S\(0\) R\s+S\(0\)\s+[\d.]+ [mµn]s", result["detail"]), result["detail"]
    assert result["followed"].startswith(("input", "target"))
    assert "A rank sends" in result["move"] and "operand 0 of aten.t" in result["move"]

    assert result["moves"] and all("over" in row for row in result["moves"])
    # Each row says what it moves, not only for which op.
    assert any("of parameter h.0.mlp.c_fc.weight, for aten.t" in row for row in result["rows"]), result["rows"]
    assert "S(0)₂" in result["legend"] and "each part over another" in result["legend"]
    assert result["backward"] and not any("addmm" in row for row in result["backward"])
    assert any(row.startswith("parameter ln_f.weight") for row in result["found"])
    assert "collectives" in result["update"]


@pytest.mark.parametrize("text, message", [
    ("", "expected JSON"),
    ("[" * 100_000, "brackets are nested too deeply"),
    ("[]", "expected the output of --propagate-placements=explain-json"),
    ("{}", "found no 'version'"),
    ('{"version": 2}', "expected version 1 of the explanation, found 2"),
    ('{"version": 1, "mesh": {"axes": []}, "functions": []}', "has no functions"),
    ('{"version": 1, "mesh": {"axes": []}, "functions": [{}]}', "found no 'name'"),
])
def test_what_is_no_explanation(tmp_path, capsys, text, message):
    path = tmp_path / "why.json"
    path.write_text(text)
    assert placement_page.main([str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1


def test_files_that_cannot_be_read_or_written(explanation, tmp_path, capsys):
    assert placement_page.main([str(tmp_path / "nowhere.json")]) == 1
    assert "cannot read" in capsys.readouterr().err
    assert placement_page.main([str(explanation), "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert "cannot write" in capsys.readouterr().err
