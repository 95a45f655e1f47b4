"""Constants are found again from step times that they made, and bad tables are refused."""

import csv
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from cleave import calibrate

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("CLEAVE_BUILD", SOURCE / "build")) / "bin/cleave-sim"
DEFAULTS = SOURCE / "examples/devices/defaults/runs.json"
COLUMNS = """id source model arch layers hidden ffn heads kv_heads vocab seq global_batch micro_batch microbatches gpus
    gpu_type gpus_per_node dp tp sp pp vpp cp ep fsdp_zero schedule recompute precision attention step_time_s
    extra""".split()


def make_rows():
    """Runs of a GPT on eight devices, by model, batch and layout."""
    for layers in (12, 24):
        for hidden in (1024, 4096):
            for micro in (1, 8):
                for tensor in (1, 2, 8):
                    row = dict.fromkeys(COLUMNS, "")
                    row |= {"id": f"{layers}-{hidden}-{micro}-{tensor}", "source": "vtrain_single", "model": "GPT",
                            "arch": "dense", "layers": layers, "hidden": hidden, "ffn": 4 * hidden, "heads": 16,
                            "seq": 1024, "global_batch": 64, "micro_batch": micro, "gpus": 8, "gpu_type": "A100",
                            "gpus_per_node": 8, "dp": 8 // tensor, "tp": tensor, "pp": 1, "fsdp_zero": 0,
                            "schedule": "1f1b", "recompute": "full", "precision": "fp16", "attention": "unfused"}
                    yield row


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(name="devices")
def copied_devices(tmp_path):
    folder = tmp_path / "devices"
    folder.mkdir()
    for name in ("a100", "cluster-vtrain", "nvlink3", "infiniband-hdr"):
        shutil.copy(SOURCE / f"examples/devices/{name}.json", folder)
    return folder


def set_constant(folder, name, value):
    path = folder / "a100.json"
    item = json.loads(path.read_text(encoding="utf-8"))
    item["constants"][name]["value"] = value
    path.write_text(json.dumps(item), encoding="utf-8")


def run(table, devices, *options):
    command = [sys.executable, "-m", "cleave.calibrate", *([str(table)] if table else []), f"--devices={devices}",
               f"--defaults={DEFAULTS}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"PATH": f"{TOOL.parent}:{os.environ['PATH']}"})


def test_a_family_counts_as_the_root_of_its_rows():
    sources = ["vtrain_single"] * 9 + ["megatron_sc21_table1"] * 3 + ["megatron_sc21_table2"]
    weights = calibrate.weigh([{"source": source} for source in sources])
    assert math.isclose(sum(weights[:9]), 3) and math.isclose(sum(weights[9:]), 2)


def test_finds_the_constants_that_made_the_times(tmp_path, devices):
    truth = {"matrix_efficiency_16bit": 0.62, "memory_efficiency": 0.7, "host_seconds": 3e-5}
    for name, value in truth.items():
        set_constant(devices, name, value)
    rows = list(make_rows())
    write(tmp_path / "rows.csv", rows)
    made = calibrate.predict(TOOL, tmp_path / "rows.csv", devices, [f"--defaults={DEFAULTS}"])
    for row, predicted in zip(rows, made):
        row["step_time_s"] = predicted["predicted_step_time_s"]
    write(tmp_path / "rows.csv", rows)
    outputs = []
    # A second fit, of what the first has written, begins where the first did.
    for begin, name in ((devices, "first"), (tmp_path / "first", "second")):
        done = run(tmp_path / "rows.csv", begin, f"--output={tmp_path / name}")
        assert done.returncode == 0, done.stderr
        outputs.append({path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())})
    assert outputs[0] == outputs[1] and "nvlink3.json" in outputs[0]
    found = json.loads(outputs[0]["a100.json"])["constants"]
    for name, value in truth.items():
        assert math.isclose(found[name]["value"], value, rel_tol=0.1), name
    # What no row decides stays where it starts.
    assert math.isclose(found["attention_efficiency"]["value"], found["attention_efficiency"]["start"], rel_tol=1e-3)
    # A plain number is not fitted.
    assert found.pop("host_efficiency") == 0.78
    for constant in found.values():
        assert constant["lower"] <= constant["value"] <= constant["upper"]
    assert "host_seconds" in done.stdout
    cluster = json.loads((tmp_path / "first/cluster-vtrain.json").read_text(encoding="utf-8"))
    assert cluster["error"] < 0.03


KERNELS = """device,kind,m,n,k,bytes,seconds
a100,product,4096,4096,4096,,
a100,product,8192,4096,16384,,
a100,product,16384,16384,4096,,
a100,bytes,,,,400000000,
a100,bytes,,,,1600000000,
"""


def profile(devices, path, slower=1.0):
    """Kernels that take `slower` times what the constants of `devices` say."""
    path.write_text(KERNELS, encoding="utf-8")
    header, *rows = csv.reader(calibrate.run_tool(TOOL, path, devices, kind="kernels"))
    lines = [",".join(header[:7])]
    lines += [",".join([*row[:6], str(slower * float(row[header.index("predicted_seconds")]))]) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_finds_what_a_profile_of_kernels_says(tmp_path, devices):
    truth = {"matrix_efficiency_16bit": 0.47, "memory_efficiency": 0.66}
    for name, value in truth.items():
        set_constant(devices, name, value)
    profile(devices, tmp_path / "kernels.csv")
    done = run(None, devices, f"--kernels={tmp_path / 'kernels.csv'}", f"--output={tmp_path / 'fitted'}")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "fitted/a100.json").read_text(encoding="utf-8"))["constants"]
    for name, value in truth.items():
        assert math.isclose(found[name]["value"], value, rel_tol=0.03), name
    assert "1600000000 bytes" in done.stdout and "product" in done.stdout


def test_a_profile_decides_what_runs_leave_open(tmp_path, devices):
    """Runs that only say how long products and moved bytes take together are explained by either: kernels say which."""
    rows = [row for row in make_rows() if row["tp"] == 1][:2]
    write(tmp_path / "rows.csv", rows)
    set_constant(devices, "matrix_efficiency_16bit", 0.45)
    for row, predicted in zip(rows, calibrate.predict(TOOL, tmp_path / "rows.csv", devices, [f"--defaults={DEFAULTS}"])):
        row["step_time_s"] = predicted["predicted_step_time_s"]
    write(tmp_path / "rows.csv", rows)
    profile(devices, tmp_path / "kernels.csv")
    errors = []
    for options in ([], [f"--kernels={tmp_path / 'kernels.csv'}"]):
        done = run(tmp_path / "rows.csv", devices, f"--output={tmp_path / 'fitted'}", *options)
        assert done.returncode == 0, done.stderr
        found = json.loads((tmp_path / "fitted/a100.json").read_text(encoding="utf-8"))["constants"]
        errors.append(abs(found["matrix_efficiency_16bit"]["value"] / 0.45 - 1))
    assert errors[1] < 0.03 and errors[1] < errors[0]


@pytest.mark.parametrize("is_like", [True, False])
def test_a_device_without_rows_has_its_relatives_value(tmp_path, devices, is_like):
    """Also where its bounds are others, but not where its file says that the relative is no guide."""
    item = json.loads((devices / "a100.json").read_text(encoding="utf-8"))
    child = item | {"device": "child", "relative": "a100"}
    constant = dict(item["constants"]["matrix_efficiency_16bit"], lower=0.05)
    child["constants"] = {"matrix_efficiency_16bit": constant if is_like else constant | {"relative": False}}
    (devices / "child.json").write_text(json.dumps(child), encoding="utf-8")
    set_constant(devices, "matrix_efficiency_16bit", 0.47)
    profile(devices, tmp_path / "kernels.csv")
    done = run(None, devices, f"--kernels={tmp_path / 'kernels.csv'}", f"--output={tmp_path / 'fitted'}")
    assert done.returncode == 0, done.stderr
    own, other = (json.loads((tmp_path / f"fitted/{name}.json").read_text(encoding="utf-8"))["constants"]
                  for name in ("child", "a100"))
    found, expected = own["matrix_efficiency_16bit"]["value"], other["matrix_efficiency_16bit"]["value"]
    if not is_like:
        expected = constant["start"]
        assert not math.isclose(expected, 0.47, rel_tol=0.1)
    assert math.isclose(found, expected, rel_tol=0.01)


@pytest.mark.parametrize("line, message", [
    ("b200,bytes,,,,1e9,0.1", "kernel 1: device: expected one of"),
    ("a100,bytes,,,,1e9,-1", "kernel 1: seconds: expected a positive number, found '-1'"),
    ("a100,bytes,,,,1e9,long", "kernel 1: seconds: expected a positive number, found 'long'"),
])
def test_refuses_kernels_that_say_nothing(tmp_path, devices, line, message):
    (tmp_path / "kernels.csv").write_text(KERNELS.splitlines()[0] + f"\n{line}\n", encoding="utf-8")
    done = run(None, devices, f"--kernels={tmp_path / 'kernels.csv'}")
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr


def test_needs_runs_or_kernels(devices):
    done = run(None, devices)
    assert done.returncode == 1 and "expected a table of runs, --kernels, or both" in done.stderr


def test_of_releases_the_newest_counts():
    def row(name, container, step="1"):
        return {"id": name, "layers": "2", "step_time_s": step, "extra": f"container={container};kind=x"}
    rows = [row("old", "25.11"), row("newest", "26.04.01", "2"), row("new", "26.04"), {"id": "other", "extra": ""}]
    assert [kept["id"] for kept in calibrate.newest(rows)] == ["newest", "other"]


@pytest.mark.parametrize("text, message", [
    ("a,b\n1,2\n", 'expected a column "source", found none'),
    (",".join(COLUMNS) + "\n", "expected rows with step_time_s that can be predicted, found none"),
])
def test_refuses_tables_without_what_it_needs(tmp_path, devices, text, message):
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    before = (devices / "a100.json").read_bytes()
    done = run(tmp_path / "rows.csv", devices)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
    assert (devices / "a100.json").read_bytes() == before


@pytest.mark.parametrize("change, message", [
    ({"step_time_s": "-1"}, "rows.csv: row 1: step_time_s: expected a positive number, or none, found '-1'"),
    ({"step_time_s": "long"}, "rows.csv: row 1: step_time_s: expected a positive number, or none, found 'long'"),
    ({"step_time_s": "nan"}, "rows.csv: row 1: step_time_s: expected a positive number, or none, found 'nan'"),
    ({"gpus_per_node": "eight"}, "rows.csv: row 1: gpus_per_node: expected a positive number, or none, found 'eight'"),
])
def test_refuses_rows_that_say_nothing(tmp_path, devices, change, message):
    write(tmp_path / "rows.csv", [next(make_rows()) | change])
    done = run(tmp_path / "rows.csv", devices)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr


def test_refuses_what_is_no_table(tmp_path, devices):
    (tmp_path / "ragged.csv").write_text(",".join(COLUMNS) + "\na,b\n", encoding="utf-8")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    for name, message in (("ragged", f"row 1: expected {len(COLUMNS)} fields as in the header"),
                          ("bytes", "expected comma-separated values, found something else"),
                          ("absent", "No such file or directory")):
        done = run(tmp_path / f"{name}.csv", devices)
        assert done.returncode == 1
        assert f"{name}.csv: {message}" in done.stderr and "Traceback" not in done.stderr


def test_refuses_devices_that_cannot_be_read_before_it_fits(tmp_path, devices):
    write(tmp_path / "rows.csv", make_rows())
    path = devices / "cluster-vtrain.json"
    item = json.loads(path.read_text(encoding="utf-8"))
    for text, message in ((json.dumps(item | {"of": "z9"}), 'has no device named "z9"'), ("{", "cluster-vtrain.json:"),
                          (json.dumps(item | {"sizes": 1}), 'unknown field "sizes"')):
        path.write_text(text, encoding="utf-8")
        done = run(tmp_path / "rows.csv", devices)
        assert done.returncode == 1
        assert message in done.stderr and "Traceback" not in done.stderr


def test_an_output_that_cannot_be_written_is_said_before_it_fits(tmp_path, devices):
    write(tmp_path / "rows.csv", make_rows())
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = run(tmp_path / "rows.csv", devices, f"--output={tmp_path / 'file/fitted'}")
    assert done.returncode == 1
    assert "file/fitted: Not a directory" in done.stderr and "Traceback" not in done.stderr
