"""What cleave-run --profile measures, cleave-sim predicts with."""

import json
import subprocess

import pytest
import training


@pytest.fixture(scope="module")
def program(build_dir, model):
    """A schedule in which all kinds of actions occur: two chunks a rank, the backward in halves."""
    source = model("gpt_tied").program
    path = source.with_name("profiled.mlir")
    passes = ["--outline-stages=count=4 balance=cost", "--split-backward",
              "--build-schedule=schedule=zbv ranks=2 microbatches=3", "--insert-p2p", "--verify-schedule"]  # fmt: skip
    subprocess.run([build_dir / "bin" / "cleave-opt", source, *passes, "-o", path], check=True)
    path.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "text"
    path.write_bytes(bytes(range(32, 127)) * 40)
    return f"text:{path}"


def profile(build_dir, program, data, path, *options):
    training.train(build_dir, program, "--data", data, "--quiet", "--profile", path, *options)
    return json.loads(path.read_text())


def refuse(build_dir, program, data, *options):
    result = subprocess.run(
        [build_dir / "bin" / "cleave-run", program, "--data", data, "--quiet", *map(str, options)],
        capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 1
    return result.stderr


def simulate(build_dir, *command):
    result = subprocess.run([build_dir / "bin" / "cleave-sim", *map(str, command), "--json"],
                            capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_ranks_measure_what_the_simulator_reads(build_dir, program, data, tmp_path):
    path = tmp_path / "profile.json"
    found = profile(build_dir, program, data, path, "--ranks", 2, "--steps", 6, "--threads", 1)
    for number, stage in enumerate(found["stages"]):
        assert all(stage[field] > 0 for field in ("forward", "input", "weight"))
        # Stages 1 and 2 are both on the last rank, 0 and 3 on the first.
        assert ("send_forward" in stage) == (number in (0, 2)), stage
        assert ("send_backward" in stage) == (number in (1, 3)), stage
    assert found["stages"][0]["optimizer"] > 0
    measured = found["measured"]
    assert (measured["steps"], measured["skipped_steps"], measured["ranks"], measured["threads"]) == (4, 2, 2, 1)
    assert measured["schedule"] == "zbv" and measured["microbatches"] == 3
    assert all(transfer["bytes"] > 0 for transfer in measured["transfers"])
    # The timeline is one step's: every action of both ranks, in the order of the rank.
    for rank in measured["timeline"]["ranks"]:
        names = [action[0] for action in rank["actions"]]
        assert sorted(names) == sorted(set(names))
        assert sum(name[0] in "FIW" for name in names) == 3 * 2 * 3
        for before, after in zip(rank["actions"], rank["actions"][1:]):
            assert before[1] <= after[1]
        assert all(0 <= begin <= ready <= end for _, begin, ready, end in rank["actions"])

    predicted = simulate(build_dir, program, f"--profile={path}", f"--measured={path}")
    assert predicted["measured_makespan"] == pytest.approx(measured["timeline"]["makespan"])
    # The machine may be busy with other things; whether predictions are good is for bench/ to say.
    assert predicted["makespan"] > max(stage["forward"] for stage in found["stages"]) * 3
    assert max(predicted["peak_memory"]) > 0


def test_replicas_of_a_pipeline_are_measured_together(build_dir, model, data, tmp_path):
    source = model("gpt_tied").program
    program = source.with_name("replicated.mlir")
    passes = ["--outline-stages=count=2 balance=cost", "--sync-gradients=axis=dp size=2", "--bucket-gradients",
              "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p", "--verify-schedule"]  # fmt: skip
    subprocess.run([build_dir / "bin" / "cleave-opt", source, *passes, "-o", program], check=True)
    program.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
    path = tmp_path / "profile.json"
    found = profile(build_dir, program, data, path, "--ranks", 4, "--steps", 4, "--threads", 1)
    timeline = found["measured"]["timeline"]
    # The pipeline axis is the mesh's first: neighbours in rank are replicas.
    assert [rank["place"] for rank in timeline["ranks"]] == [0, 0, 1, 1]
    stages = found["stages"]
    assert all(stage["forward"] > 0 and stage["backward"] > 0 and "reduce" in stage for stage in stages)
    assert stages[0]["send_forward"] > 0 and stages[1]["send_backward"] > 0
    page = tmp_path / "page.html"
    predicted = simulate(build_dir, program, f"--profile={path}", f"--measured={path}", f"--html={page}")
    assert predicted["makespan"] > 0 and predicted["measured_makespan"] == pytest.approx(timeline["makespan"])
    assert '"rank":3,"place":1' in page.read_text()


def test_one_process_measures_stages(build_dir, program, data, tmp_path):
    path = tmp_path / "profile.json"
    found = profile(build_dir, program, data, path, "--steps", 3, "--profile-skip", 1)
    for stage in found["stages"]:
        assert all(stage[field] > 0 for field in ("forward", "input", "weight"))
        assert "send_forward" not in stage
    assert found["measured"]["steps"] == 2 and found["measured"]["ranks"] == 1
    # Other schedules with these costs.
    compared = simulate(build_dir, program, "--compare=zbv,zb-h1", "--ranks=2", "--microbatches=4", f"--profile={path}")
    assert len(compared["schedules"]) == 2


def test_what_cannot_be_measured_is_refused(build_dir, model, program, data, tmp_path):
    whole = refuse(build_dir, model("gpt_tied").program, data, "--steps", 4, "--profile", tmp_path / "p.json")
    assert "--profile expects a program in stages (cleave-opt --outline-stages), found one without" in whole
    short = refuse(build_dir, program, data, "--steps", 2, "--profile", tmp_path / "p.json")
    assert "--profile skips the first 2 steps, but the run has 2: expected more --steps" in short
    nowhere = refuse(build_dir, program, data, "--ranks", 2, "--steps", 4, "--profile", tmp_path / "no" / "p.json")
    assert f"{tmp_path}/no/p.json" in nowhere
    negative = refuse(build_dir, program, data, "--steps", 4, "--profile", tmp_path / "p.json", "--profile-skip", -1)
    assert "expected --profile-skip of at least 0, found -1" in negative
    assert list(tmp_path.iterdir()) == []
