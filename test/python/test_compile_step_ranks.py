"""`cleave.compile_step` on ranks, on the process group that is there: as on one rank, and no hang."""

import functools
import json
import pathlib
import time

import cleave_path  # noqa: F401
import cleave
import forked_ranks
import gpt
import pytest
import step_ranks
import torch
from combinations_cover import part_of_today

SCRIPT = pathlib.Path(__file__).with_name("step_ranks.py")


def run_ranks(mode, file, ranks=2):
    return forked_ranks.run(ranks, SCRIPT, mode, file)


@functools.cache
def eager(two_sizes):
    """Losses and norms of the same training in eager mode; then losses of evaluation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    module = step_ranks.model()
    optimizer = step_ranks.optimizer_of(module)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + number))
    results, evaluations = [], []
    for number in range(step_ranks.STEPS):
        if number in step_ranks.EVALUATED:
            with torch.no_grad():
                evaluations += [gpt.cross_entropy(module(x), y).item() for x, y in (step_ranks.batch(each, two_sizes) for each in (7, 0))]
        tokens, targets = step_ranks.batch(number, two_sizes)
        optimizer.zero_grad()
        loss = gpt.cross_entropy(module(tokens), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        results.append((loss.item(), norm.item()))
    torch.set_num_threads(threads)
    return results, evaluations


@pytest.fixture(scope="module", params=[2, 4])
def trained(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("ranks") / "losses.json"
    ways = list(step_ranks.MODES[request.param])
    ran = forked_ranks.run(request.param, SCRIPT, "all", file, *(ways if request.param == 2 else part_of_today(ways)))
    assert ran.returncode == 0, ran.stderr[-4000:]
    return {**json.loads(file.read_text()), "ranks": request.param, "checkpoint": f"{file}.checkpoint"}


@pytest.mark.parametrize("mode", ["dp", "fsdp", "tp", "pp", "v", "loop"])
def test_losses_on_ranks_are_those_of_one(trained, mode):
    """Of batches of two sizes, and those of evaluation; step_ranks.py looks at outputs and at what is sharded."""
    if mode not in trained:
        pytest.skip("on two ranks, or on another day")
    found, (results, evaluations) = trained[mode], eager(step_ranks.has_two_sizes(trained["ranks"], mode))
    assert len(found) == len(results) + len(evaluations)
    for (loss, norm), (expected, expected_norm) in zip(found, results):
        assert abs(loss - expected) < 1e-5
        assert abs(norm - expected_norm) < 1e-4
    assert found[len(results) :] == pytest.approx(evaluations, abs=1e-5)


def test_a_sharded_checkpoint_goes_on_on_one_rank(trained):
    """That of FSDP on two ranks, by PyTorch's distributed checkpoints."""
    if trained["ranks"] != 2:
        pytest.skip("saved on two ranks")
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    module = step_ranks.model()
    optimizer = step_ranks.optimizer_of(module)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + number))
    weights, state = get_state_dict(module, optimizer)
    whole = {"model": weights, "optimizer": state, "scheduler": scheduler.state_dict()}
    dcp.load(whole, checkpoint_id=trained["checkpoint"], no_dist=True)
    set_state_dict(module, optimizer, model_state_dict=whole["model"], optim_state_dict=whole["optimizer"])
    scheduler.load_state_dict(whole["scheduler"])
    optimizer.zero_grad()
    step = cleave.compile_step(module, gpt.cross_entropy, optimizer, clip_norm=1.0)
    for number in range(step_ranks.CHECKPOINT_STEP, step_ranks.STEPS):
        out = step(*step_ranks.batch(number))
        scheduler.step()
        assert abs(out.loss.item() - eager(True)[0][number][0]) < 1e-5


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    file = tmp_path_factory.mktemp("errors") / "errors"
    run_ranks("errors", file)
    return [json.loads(pathlib.Path(f"{file}.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize(
    ("mode", "texts"),
    {
        "wrong_mesh": ["expected 3 ranks for the mesh {'dp': 3}, found 2"],
        "one_fails": ["no-such-pass"],
        "replaced_on_one": ["Error: 'ln_f.weight' was replaced since the step was compiled"],
        "different_models": ["the ranks were given different programs: gpt"],
        "different_weights": [
            "'wte.weight' differs between ranks 0 and 1: expected the same values on all, by the same torch.manual_seed()"
        ],
        "different_states": ["'exp_avg' of 'wte.weight' in AdamW differs between ranks 0 and 1: expected the same values on all"],
        "different_rates": ["expected the same learning rates on all ranks, found\nrank 0: 0.001\nrank 1: 0.0005"],
        "swapped_steps": [
            "expected the same of several steps on all ranks, found\nrank 0: the one that was called as number 1\n"
            "rank 1: the one that was called as number 2"
        ],
        "different_draws": ["Error: ranks that share a batch have other random numbers: expected the same state"],
        "different_draws_later": [
            "expected batches of the same types and shapes on all ranks, found\nrank 0: int64 [8, 32] on cpu",
            "on cpu with PyTorch's generator in state",
        ],
        "different_batches": [
            "expected batches of the same types and shapes on all ranks, found",
            "rank 0: int64 [1, 32] on cpu, int64 [1, 32] on cpu\nrank 1: int64 [2, 32] on cpu, int64 [2, 32] on cpu",
        ],
    }.items(),
)
def test_an_error_of_one_rank_is_one_exception_on_all(errors, mode, texts):
    for rank, found in enumerate(errors):
        text, _ = found[mode]
        assert "Error: " in text
        for expected in texts:
            assert expected in text, (rank, text)
    if mode == "one_fails":
        assert errors[0][mode][0].startswith("Error: rank 1: Error: ")


@pytest.mark.parametrize("mode", ["loader_fails", "late"])
def test_a_rank_that_does_not_come_is_waited_for_until_the_timeout(errors, mode):
    """An exception in its data loader, say, after which it makes no step."""
    text, seconds = errors[0][mode]
    assert text.startswith("Error: rank 0 has lost another rank before a step: all_reduce of what the batch is like failed")
    assert "it did not complete within 5 s; a rank is lost, stuck or in another operation" in text
    assert seconds < 30
    if mode == "late":
        assert "did not complete within 5 s" in errors[1][mode][0]


@pytest.mark.parametrize("mode", ["interrupted", "interrupted_in_step", "interrupted_in_receive"])
def test_an_interrupt_ends_a_wait_for_other_ranks(errors, mode):
    """The other rank sleeps for 4 s; the signal comes after one."""
    text, seconds = errors[0][mode]
    assert text.startswith("KeyboardInterrupt")
    assert errors[1][mode][0] == "OSError: slept"
    assert seconds < errors[1][mode][1] - 1


def test_a_rank_that_is_lost_leaves_no_other_waiting(tmp_path):
    file, begin = tmp_path / "error", time.monotonic()
    run_ranks("rank_dies", file)
    found, _ = json.loads(pathlib.Path(f"{file}.0").read_text())["rank_dies"]
    assert found.startswith("Error: rank 0 has lost another rank before a step: ")
    assert time.monotonic() - begin < 200
