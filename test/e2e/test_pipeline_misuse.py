"""What would hang or compute with the wrong values is refused, or ends all ranks with a reason."""

import os
import re
import signal
import subprocess
import time

import pytest
import training
from pipelines import pipelines, text  # noqa: F401


@pytest.fixture(scope="module")
def two(model, pipelines):  # noqa: F811
    return pipelines.schedule(model("gpt_tied").program, "1f1b", 2)


def words(text, rank, edit):
    """Changes the words of a rank's list."""

    def change(match):
        return match.group(1) + " ".join(edit(match.group(2).split())) + match.group(3)

    pattern = rf"(\n *rank {rank}: )(.*?)(\n *rank |\n *}})"
    return re.sub(pattern, change, text, count=1, flags=re.S)


def swap(list, a, b):
    i, j = list.index(a), list.index(b)
    list[i], list[j] = list[j], list[i]
    return list


def before(list, moved, place):
    list.remove(moved)
    list.insert(list.index(place), moved)
    return list


EDITS = {
    # Under matching by tag the order of two sends is free: one for another stage's data is not.
    "a send of what is not made yet": (
        lambda t: words(t, 0, lambda w: before(w, "sendF0.1", "F0.1")), "sendF0.1"),
    "a send without its computation": (
        lambda t: words(t, 0, lambda w: swap(w, "sendF0.0", "F0.0")), "F0.0"),
    "a missing receive": (
        lambda t: words(t, 1, lambda w: [x for x in w if x != "recvF1.2"]), "F1.2"),
    "a missing send": (
        lambda t: words(t, 0, lambda w: [x for x in w if x != "sendF0.2"]), "F0.2"),
    "a cycle": (
        lambda t: words(words(t, 0, lambda w: before(w, "B0.0", "F0.1")), 1,
                        lambda w: before(w, "F1.1", "B1.0")), "deadlock"),
    "a computation twice": (
        lambda t: words(t, 0, lambda w: w + ["F0.0"]), "F0.0"),
    "no optimizer step": (
        lambda t: words(t, 0, lambda w: [x for x in w if x != "step0"]), "never takes its optimizer step"),
    "a microbatch too many": (
        lambda t: t.replace("microbatches 4", "microbatches 5"), "F0.4"),
    "stages on other ranks": (
        lambda t: t.replace("topology loop", "topology [1 0]"), "stage 0 is on rank 1 in this topology"),
    "an axis that is not there": (
        lambda t: t.replace("topology loop", 'topology loop over "stages"'), '"stages"'),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_schedules_that_are_refused(name, two, pipelines, text, cleave_run):  # noqa: F811
    """Before any rank takes a step, with the action or the reason."""
    edit, expected = EDITS[name]
    path = pipelines.edited(two, "edited", edit)
    message = cleave_run.fail(path, "--ranks", 2, "--steps", 1, "--data", text, "--timeout", 20)
    assert expected in message and "step 1" not in message, message


def test_a_v_schedule_on_a_loop(model, pipelines, text, cleave_run):  # noqa: F811
    path = pipelines.schedule(model("gpt_tied").program, "zbv", 2)
    path = pipelines.edited(path, "loop", lambda t: t.replace("topology v", "topology loop"))
    message = cleave_run.fail(path, "--ranks", 2, "--steps", 1, "--data", text)
    assert re.search(r"stage \d is on rank \d in this topology \(loop\)", message)


def test_numbers_that_do_not_fit(two, text, cleave_run):  # noqa: F811
    options = ["--steps", 1, "--data", text]
    message = cleave_run.fail(two, "--ranks", 3, *options)
    assert 'mesh ["pp" = 2] expects 2 ranks, found 3' in message
    message = cleave_run.fail(two, "--ranks", 2, *options, "--microbatches", 3)
    assert "schedule '1f1b' is for 4 microbatches per step, found --microbatches 3" in message
    message = cleave_run.fail(two, *options, "--batch", 6)
    assert "schedule '1f1b' is for 4 microbatches per step" in message
    message = cleave_run.fail(two, "--ranks", 2, *options, "--weight-gradients=deferred")
    assert "backward_weight" in message or "cannot be deferred" in message
    message = cleave_run.fail(two, "--ranks", 2, *options, "--memory-limit", "64KiB")
    assert "on rank 0 along \"pp\" by schedule '1f1b', more than --memory-limit" in message


def test_transfers_must_be_explicit(model, pipelines, text, cleave_run):  # noqa: F811
    path = pipelines.make(
        model("gpt_tied").program, "implied", "--outline-stages=count=2 balance=cost",
        "--build-schedule=schedule=gpipe ranks=2 microbatches=2")  # fmt: skip
    message = cleave_run.fail(path, "--ranks", 2, "--steps", 1, "--data", text)
    assert "--insert-p2p" in message
    # One rank needs none.
    cleave_run.succeed(path, "--steps", 1, "--data", text)


def test_a_stage_takes_what_is_not_given(two, pipelines, text, cleave_run):  # noqa: F811
    def edit(program):
        crossing = re.search(r'#train.role<crossing "([^"]+)">', program).group(0)
        at = program.index("func.func @forward_1")
        return program[:at] + program[at:].replace(crossing, '#train.role<crossing "other">')

    path = pipelines.edited(two, "other", edit)
    message = cleave_run.fail(path, "--ranks", 2, "--steps", 1, "--data", text)
    assert "crossing" in message and '"other"' in message


def test_ranks_have_one_program(build_dir, two, model, pipelines, text, tmp_path):  # noqa: F811
    """As under a launcher that starts ranks with different command lines."""
    other = pipelines.schedule(model("gpt_tied").program, "gpipe", 2)
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank, path in enumerate([two, other]):
        environment = dict(training.ENVIRONMENT, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))  # fmt: skip
        command = training.command(build_dir, path, "--steps", 1, "--data", text, "--timeout", 30)
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True))  # fmt: skip
    messages = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert all(rank.returncode != 0 for rank in ranks)
    assert any("different programs" in message for message in messages)


def children(pid):
    path = f"/proc/{pid}/task/{pid}/children"
    return [int(each) for each in open(path).read().split()]


def test_a_killed_rank_is_named(build_dir, model, pipelines, text, tmp_path):  # noqa: F811
    """All others end soon, and say which of their actions waited for it."""
    path = pipelines.schedule(model("gpt_tied").program, "1f1b", 4)
    command = training.command(build_dir, path, "--ranks", 4, "--steps", 100000, "--data", text,
                               "--metrics", tmp_path / "m.jsonl", "--timeout", 30)  # fmt: skip
    run = subprocess.Popen(command, env=training.ENVIRONMENT, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        for _ in range(600):
            time.sleep(0.05)
            if (tmp_path / "m.jsonl").exists() and len(open(tmp_path / "m.jsonl").readlines()) > 2:
                break
        # The supervisor forks its ranks in order.
        os.kill(children(run.pid)[2], signal.SIGKILL)
        start = time.monotonic()
        _, message = run.communicate(timeout=60)
        assert time.monotonic() - start < 25
    finally:
        run.kill()
    assert run.returncode == 128 + signal.SIGKILL, message
    assert "rank 2 was killed by signal 9" in message
    assert re.search(r"action (F|B|sendF|sendB|recvF|recvB)\d\.\d|the loss", message), message


def test_what_each_rank_needs(two, cleave_run):
    report = cleave_run.succeed(two, "--dry-run")
    ranks = re.findall(r"rank (\d): stages? ([\d, ]+); (.*); peak ([\d.]+ \w+)", report)
    assert [rank[:2] for rank in ranks] == [("0", "0"), ("1", "1")]
    assert "4 forward" in ranks[0][2] and "4 backward" in ranks[0][2]
