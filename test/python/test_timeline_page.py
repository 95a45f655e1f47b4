"""The page cleave-sim writes, in headless Chromium: actions are drawn, zoom and hover work."""

import json
import re
import shutil
import subprocess

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Appended to the page: acts as a user would, and leaves what came of it in the document.
PROBE = """
<script>
const result = { whole: drawn, range: [t0, t1] };
const box = lanes.getBoundingClientRect();
function moveTo(rank, a) {
  const s = sizes(), middle = (a[4] + a[5]) / 2;
  lanes.dispatchEvent(new PointerEvent("pointermove", {
    clientX: box.left + left + ((middle - t0) / (t1 - t0)) * width,
    clientY: box.top + rank * s.lane + 3 + s.bar / 2 }));
  return tip.style.display === "block" ? tip.textContent : null;
}
result.ink = (() => {
  const pixels = lanes.getContext("2d").getImageData(0, 0, lanes.width, lanes.height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 40) seen.add([pixels[i], pixels[i + 1], pixels[i + 2]].join());
  return seen.size;
})();
result.tips = ranks.map((r, n) => r.compute.map((a) => [a[1], moveTo(n, a)]));
lanes.dispatchEvent(new PointerEvent("pointerleave"));
result.left = tip.style.display;
lanes.dispatchEvent(new WheelEvent("wheel", { deltaY: -600, clientX: box.left + left + width / 2, cancelable: true }));
result.zoomed = { drawn, range: [t0, t1] };
lanes.dispatchEvent(new PointerEvent("pointerdown", { clientX: 700, pointerId: 1 }));
lanes.dispatchEvent(new PointerEvent("pointermove", { clientX: 600, pointerId: 1 }));
lanes.dispatchEvent(new PointerEvent("pointerup", { pointerId: 1 }));
result.dragged = [t0, t1];
$("all").click();
result.reset = [t0, t1];
const out = document.createElement("pre");
out.id = "result";
out.textContent = JSON.stringify(result);
document.body.append(out);
</script>
"""


def open_page(page, probe, tmp_path):
    """Opens a page with a script at its end, and gives what that leaves as JSON."""
    # Capturing needs a real pointer.
    text = page.read_text().replace("lanes.setPointerCapture(e.pointerId);", "")
    page.write_text(text.replace("</html>", probe + "</html>"))
    dom = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,700",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        check=True, capture_output=True, text=True, timeout=120).stdout
    found = re.search(r'<pre id="result">(.*?)</pre>', dom, re.S)
    assert found, "the page's script did not run to its end"
    return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page_draws_zooms_and_hovers(build_dir, tmp_path):
    page = tmp_path / "page.html"
    command = [build_dir / "bin" / "cleave-sim", "--schedule=zbv", "--ranks=3", "--microbatches=6",
               "--costs=2,2,1,0.5", "--activation-memory=2,1,1", f"--html={page}"]
    subprocess.run(command, check=True, capture_output=True)
    result = open_page(page, PROBE, tmp_path)

    actions = 3 * 2 * 3 * 6  # passes, chunks, ranks, microbatches
    assert result["whole"] == actions
    assert result["ink"] > 6, "expected several colours on the canvas"
    start, end = result["range"]
    assert start == 0 and end > 0

    tips = [tip for rank in result["tips"] for tip in rank]
    assert len(tips) == actions
    for name, tip in tips:
        assert tip and tip.startswith(name + " "), f"hovering over {name} shows {tip!r}"
    assert any(re.search(r"waited [\d.]+ for \w[\d.]+ of rank \d", tip) for _, tip in tips)
    assert result["left"] == "none"

    low, high = result["zoomed"]["range"]
    assert 0 < low < high < end and result["zoomed"]["drawn"] < actions
    drag_low, drag_high = result["dragged"]
    assert drag_low > low and drag_high - drag_low == pytest.approx(high - low)
    assert result["reset"] == [start, end]


MEASURED_PROBE = """
<script>
const result = { facts: $("facts").textContent, labels: ranks.map((r) => r.label), drawn: {}, lanes: {} };
const pen = lanes.getContext("2d");
pen.font = "11px system-ui, sans-serif";
Object.assign(result, { left, labelWidths: ranks.map((r) => pen.measureText(r.label).width) });
for (const mode of ["predicted", "measured", "both"]) {
  $("mode").value = mode;
  $("mode").onchange();
  result.drawn[mode] = drawn;
  result.lanes[mode] = ranks.length;
}
const box = lanes.getBoundingClientRect(), s = sizes(), a = ranks[1].compute[1];
lanes.dispatchEvent(new PointerEvent("pointermove", {
  clientX: box.left + left + (((a[4] + a[5]) / 2 - t0) / (t1 - t0)) * width,
  clientY: box.top + s.lane + 3 + s.bar / 2 }));
result.tip = tip.textContent;
const out = document.createElement("pre");
out.id = "result";
out.textContent = JSON.stringify(result);
document.body.append(out);
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page_sets_a_measured_step_beside_the_predicted_one(build_dir, tmp_path):
    # One rank of two data-parallel replicas, 0.5 of idle time before the backward.
    actions = [["F0.0", 0, 0, 2.5], ["B0.0", 2.5, 3, 6]]
    ranks = [{"rank": rank, "place": 0, "actions": actions} for rank in (0, 1)]
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({
        "stages": [{"forward": 2, "input": 2, "weight": 1}],
        "measured": {"timeline": {"step": 3, "makespan": 6, "ranks": ranks}}}))
    page = tmp_path / "page.html"
    command = [build_dir / "bin" / "cleave-sim", "--schedule=offline", "--ranks=1", "--microbatches=1",
               f"--cost-table={profile}", f"--measured={profile}", f"--html={page}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "measured 6.000 (step 3): predicted 16.7 % below" in text
    result = open_page(page, MEASURED_PROBE, tmp_path)
    # A table of costs is in milliseconds. Each rank computes for 5.5 of 6.
    assert "makespan 5 ms, measured 6 ms (predicted 16.67 % below)" in result["facts"]
    assert "ranks idle 0.00 %, measured 8.33 %" in result["facts"]
    assert all(width < result["left"] for width in result["labelWidths"]), result
    assert result["labels"] == ["0: predicted", "0: rank 0 measured", "0: rank 1 measured"]
    assert result["lanes"] == {"predicted": 1, "measured": 2, "both": 3}
    assert result["drawn"] == {"predicted": 2, "measured": 4, "both": 6}
    assert result["tip"].startswith("B0.0 backward, stage 0, microbatch 0")
    assert "0: rank 0 measured, position 1" in result["tip"] and "waited 0.5 ms" in result["tip"]


COMPARED_PROBE = """
<script>
const rows = [...document.querySelectorAll("#runs tbody tr")];
const shown = () => ({ facts: $("facts").textContent, ranks: ranks.length, drawn, scale: t1, chosen: rows.findIndex((r) => r.className === "on") });
const result = { title: document.title, table: rows.map((r) => [...r.cells].map((c) => c.textContent)), first: shown() };
rows[1].click();
result.second = shown();
// Cells of a kind are labelled alike, whatever their number has for digits.
const label = chooseLabels(lanes.getContext("2d"));
result.labels = ranks.flatMap((r) => r.compute.filter((a) => a[0] === "F").map((a) => label.of(a)));
const out = document.createElement("pre");
out.id = "result";
out.textContent = JSON.stringify(result);
document.body.append(out);
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page_sets_schedules_side_by_side(build_dir, tmp_path):
    page = tmp_path / "page.html"
    command = [build_dir / "bin" / "cleave-sim", "--compare=1f1b,zbv", "--ranks=2", "--microbatches=12",
               "--costs=1,1,1", f"--html={page}", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    makespans = [run["makespan"] for run in report["schedules"]]
    result = open_page(page, COMPARED_PROBE, tmp_path)
    assert result["title"] == "2 schedules: 2 ranks, 12 microbatches"
    assert [row[0] for row in result["table"]] == ["1f1b", "zbv"]
    assert [float(row[1]) for row in result["table"]] == pytest.approx(makespans, rel=1e-3)
    assert result["first"]["facts"].startswith("1f1b: makespan") and result["first"]["chosen"] == 0
    assert result["second"]["facts"].startswith("zbv: makespan") and result["second"]["chosen"] == 1
    assert "in the unit of the costs" in result["second"]["facts"]
    assert result["first"]["scale"] == result["second"]["scale"] == max(makespans)
    assert result["second"]["drawn"] == 2 * 2 * 3 * 12  # ranks, chunks, passes, microbatches
    assert all(result["labels"]) and {"9", "10", "11"} <= {text.rpartition(".")[2] for text in result["labels"]}
