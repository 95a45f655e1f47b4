"""cleave-plan --explain: every stage and every tensor of the plan, as JSON and on a page in headless Chromium."""

import json
import re
import subprocess

import cleave_path  # noqa: F401
import cleave
import gpt
import pytest
from test_timeline_page import BROWSER, open_page

# Appended to the page: acts as a user would, and leaves what came of it in the document.
PROBE = """
<script>
const texts = (selector) => [...document.querySelectorAll(selector)].map((n) => n.textContent);
const result = { title: document.title, facts: $("facts").innerText, step: $("step").innerText, memory: $("memory").innerText };
result.stages = texts("#stages tbody tr").length;
result.layouts = texts("#layouts tbody tr").length;
result.alternatives = texts("#alternatives tbody tr").length;
result.commands = $("commands").textContent;
$("search").value = "c_fc.weight";
$("search").dispatchEvent(new Event("input"));
result.found = texts("#tensors tbody tr");
$("search").value = "";
$("part").value = "backward";
$("part").dispatchEvent(new Event("change"));
result.backward = texts("#tensors tbody tr").length;
result.fits = document.documentElement.scrollWidth <= window.innerWidth;
const out = document.createElement("pre");
out.id = "result";
out.textContent = JSON.stringify(result);
document.body.append(out);
</script>
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    cleave.export_spec(gpt._spec("gpt", gpt.GPTConfig(layers=4), batch=8), folder)
    return folder / "gpt.mlir"


@pytest.fixture(scope="module")
def explain(build_dir, program, tmp_path_factory):
    """A report, and the folder it was written to."""

    def run(fixed):
        folder = tmp_path_factory.mktemp("plan")
        done = subprocess.run(
            [build_dir / "bin" / "cleave-plan", program, "--cluster=A100", "--ranks=4", "--microbatches=4",
             "--time-limit=500", "--explain", "--json", f"--fix={fixed}", "-o", folder],
            capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), folder

    return run


def test_stages_and_tensors_of_a_plan(explain, build_dir):
    report, folder = explain("dp=2,tp=2,parameters=fsdp,recompute=full,sequence=no")
    assert json.loads((folder / "plan.json").read_text()) == report
    (stage,) = report["stages"]
    assert stage["place"] == 0 and stage["recomputed"] and 0 < stage["recomputed_seconds"] < stage["backward"]
    # What its memory says is what the report says of that rank.
    for kind in ("parameters", "gradients", "optimizer"):
        assert stage[kind] == report["best"]["memory"][0][kind]
    tensors = {(tensor["name"], tensor["function"]): tensor for tensor in report["tensors"] if tensor["argument"]}
    weight = tensors["parameter h.*.mlp.c_fc.weight", "microbatch"]
    assert weight["count"] > 1 and weight["layers"] == f"0-{weight['count'] - 1}"
    # Cut by tensor parallelism first, then by FSDP.
    assert weight["placement"] == {"dp": "S(0, 1)", "tp": "S(0, 0)"}
    whole, local = ([int(size) for size in weight[of].split("x")] for of in ("shape", "local_shape"))
    assert whole[0] * whole[1] == 4 * local[0] * local[1]
    # The rule of the plan that is written.
    rules = json.loads((folder / "placements.json").read_text())["rules"]
    number = int(re.search(r"rules\[(\d+)\]", weight["why"]["tp"])[1])
    assert rules[number]["axis"] == "tp" and rules[number]["modules"] == "h.*.mlp.c_fc"
    # All that the passes place, once: a tensor of a layer counts for each.
    why = folder / "why.json"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", report["best"]["plan"]["program"], f"--annotate-placements=plan={folder}/placements.json",
         f"--propagate-placements=explain-json={why}", "-o", folder / "placed.mlir"],
        check=True, capture_output=True)  # fmt: skip
    placed = [tensor for function in json.loads(why.read_text())["functions"] for tensor in function["tensors"]]
    assert sum(tensor["count"] for tensor in report["tensors"]) == len(placed)
    assert all(tensor["placement"].keys() == {"dp", "tp"} for tensor in report["tensors"])


def test_stages_of_a_pipeline(explain):
    report, _ = explain("dp=1,tp=1,pp=2,cp=2,schedule=zbv,chunks=2,recompute=cheap,parameters=zero1")
    stages = report["stages"]
    # A V: the first place has the first stage and the last.
    assert [stage["place"] for stage in stages] == [0, 1, 1, 0]
    assert [stage["layers"][0] for stage in stages] == [0, *(stage["layers"][1] for stage in stages[:-1])]
    assert all(stage["backward"] == 0 < stage["input_gradient"] for stage in stages[1:])
    for place, memory in enumerate(report["best"]["memory"]):
        ours = sum(stage["parameters"] for stage in stages if stage["place"] == place)
        assert ours == memory["parameters"]


def test_a_pipeline_alone_divides_no_tensor(explain):
    report, folder = explain("dp=1,tp=1,pp=4,cp=1,chunks=1")
    assert report["tensors"] == [] and [stage["place"] for stage in report["stages"]] == [0, 1, 2, 3]
    assert (folder / "plan.html").exists()


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page_shows_the_plan(explain, tmp_path):
    report, folder = explain("dp=2,tp=2")
    text = (folder / "plan.html").read_text()
    assert "http" not in text, "the page is self-contained"
    result = open_page(folder / "plan.html", PROBE, tmp_path)
    assert result["title"].startswith("Plan: dp=2 ") and "tp=2" in result["title"]
    assert "Step on 4 ranks of" in result["facts"] and "gap 0 %" in result["facts"]
    assert "kernels" in result["step"] and "place 0" in result["memory"]
    assert result["stages"] == len(report["stages"]) and result["layouts"] == len(report["layouts"])
    assert result["alternatives"] == len(report["alternatives"]) and result["backward"] > 0
    assert result["commands"] == "\n".join(report["commands"])
    assert result["found"] and all("c_fc.weight" in row and "rules[" in row for row in result["found"][:1])
    assert result["fits"]
