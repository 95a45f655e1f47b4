"""Per-rank order of compute actions equal to torch.distributed.pipelining's, through its CSV.

torch builds `pipeline_order` in the schedules' constructors, which want process groups; the
functions that make one rank's list are called here on bare objects instead, and their result is
compared with what the constructors make of stages that only have sizes.
"""

import csv
import json
import subprocess
from collections import Counter
from random import Random
from types import SimpleNamespace

import combinations_cover
import pytest

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

RANKS = (2, 3, 4, 8)
MICROBATCHES = range(1, 33)


@pytest.fixture(scope="session")
def dump(build_dir):
    """Builds many schedules in one process: a list of requests to a list of rows (or an error)."""

    def run(requests, *flags):
        text = "".join(" ".join(map(str, request)) + "\n" for request in requests)
        done = subprocess.run([build_dir / "unit" / "schedule-dump", *flags], input=text,
                              capture_output=True, text=True, check=True, timeout=300)
        programs, rows = [], []
        for line in done.stdout.splitlines():
            if line == "end":
                programs.append(rows)
                rows = []
            else:
                rows.append([cell for cell in line.split(",") if cell])
        assert len(programs) == len(requests)
        return programs

    return run


def rows_of(order):
    """torch's order without bubbles and gradient reductions."""
    return [[str(a) for a in order[rank]
             if a is not None and a.computation_type != schedules.REDUCE_GRAD]
            for rank in sorted(order)]


def single(cls, ranks, microbatches):
    bare = SimpleNamespace(_num_stages=ranks, _n_microbatches=microbatches)
    return rows_of(cls._get_pipeline_order(bare))


def order_of(cls, ranks, chunks, microbatches):
    """torch's `pipeline_order` of a multi-stage schedule, or None if its constructor refuses."""
    bare = cls.__new__(cls)
    bare.pp_group_size = ranks
    bare._n_microbatches = microbatches
    bare.n_local_stages = chunks
    bare._stages = [None] * chunks
    bare.num_stages = bare._num_stages = ranks * chunks
    bare.number_of_rounds = max(1, microbatches // ranks)
    bare.microbatches_per_round = microbatches // bare.number_of_rounds
    interleaved = cls in (schedules.ScheduleInterleaved1F1B, schedules.ScheduleInterleavedZeroBubble)
    if interleaved and microbatches % bare.number_of_rounds:
        return None
    if cls is schedules.ScheduleDualPipeV and microbatches < bare.num_stages:
        return None
    bare.pipeline_order = {r: bare._calculate_single_rank_operations(r) for r in range(ranks)}
    if cls is schedules.ScheduleInterleavedZeroBubble:
        bare.pipeline_order = bare._add_bubbles_to_actions(ranks * chunks)
    return bare.pipeline_order


def multi(cls, ranks, chunks, microbatches):
    order = order_of(cls, ranks, chunks, microbatches)
    return None if order is None else rows_of(order)


MULTI = {
    "looped-bfs": (schedules.ScheduleLoopedBFS, (1, 2, 3, 4)),
    "interleaved-1f1b": (schedules.ScheduleInterleaved1F1B, (1, 2, 3, 4)),
    "interleaved-zero-bubble": (schedules.ScheduleInterleavedZeroBubble, (1, 2, 3, 4)),
    "zbv": (schedules.ScheduleZBVZeroBubble, (2,)),
    "dualpipev": (schedules.ScheduleDualPipeV, (2,)),
}


SINGLE = {"gpipe": schedules.ScheduleGPipe, "1f1b": schedules.Schedule1F1B}


def test_every_schedule_of_torch_is_compared():
    """A schedule that a later torch brings makes this fail."""
    theirs = {cls for cls in vars(schedules).values()
              if isinstance(cls, type) and issubclass(cls, schedules._PipelineSchedule)}
    without_order = {schedules._PipelineSchedule, schedules.PipelineScheduleSingle,
                     schedules.PipelineScheduleMulti, schedules._PipelineScheduleRuntime,
                     schedules._ScheduleForwardOnly}
    assert theirs - without_order == {cls for cls, _ in MULTI.values()} | set(SINGLE.values())


class Stage(SimpleNamespace):
    """What the constructors of torch's schedules ask of a stage."""

    def __init__(self, ranks, stages):
        super().__init__(group_size=ranks, num_stages=stages, group_rank=0, stage_index=0,
                         has_backward=True, is_first=True, is_last=False, submod=None)


def constructed(cls, ranks, chunks, microbatches):
    """The `pipeline_order` of a schedule that torch made itself; None if it refuses."""
    stages = [Stage(ranks, ranks * chunks) for _ in range(chunks)]
    try:
        return cls(stages, microbatches, loss_fn=lambda *_: None).pipeline_order
    except ValueError:
        return None


@pytest.mark.parametrize("name", MULTI)
def test_bare_objects_have_the_order_that_constructors_make(name):
    cls, all_chunks = MULTI[name]
    for ranks in RANKS:
        for chunks in all_chunks:
            for microbatches in (1, 2, 5, 7, 8, 12, 16, 31, 32):
                assert order_of(cls, ranks, chunks, microbatches) == constructed(
                    cls, ranks, chunks, microbatches), (ranks, chunks, microbatches)


@pytest.mark.parametrize("name", MULTI)
def test_order_equals_torch(dump, name):
    cls, all_chunks = MULTI[name]
    requests = [(name, p, c, m) for p in RANKS for c in all_chunks for m in MICROBATCHES]
    legal = 0
    for (_, ranks, chunks, microbatches), ours in zip(requests, dump(requests)):
        theirs = multi(cls, ranks, chunks, microbatches)
        where = f"{name} ranks={ranks} chunks={chunks} microbatches={microbatches}"
        if theirs is None:
            assert ours[0][0].startswith("error:"), where
            continue
        legal += 1
        assert ours == theirs, where
    assert legal > 50


def test_gpipe_equals_torch(dump):
    requests = [("gpipe", p, 1, m) for p in RANKS for m in MICROBATCHES]
    for (_, ranks, _, microbatches), ours in zip(requests, dump(requests)):
        assert ours == single(SINGLE["gpipe"], ranks, microbatches)


def test_1f1b_equals_torch_but_for_its_last_rank(dump):
    """torch 2.11 counts the last rank's forwards from 1, and runs more forwards than there are
    microbatches where these are fewer than the ranks: both are errors of its order, not of ours."""
    requests = [("1f1b", p, 1, m) for p in RANKS for m in MICROBATCHES]
    for (_, ranks, _, microbatches), ours in zip(requests, dump(requests)):
        for rank, row in enumerate(ours):
            once = Counter(f"{rank}{kind}{m}" for kind in "FB" for m in range(microbatches))
            assert Counter(row) == once
        if microbatches < ranks:
            continue
        theirs = single(SINGLE["1f1b"], ranks, microbatches)
        assert ours[:-1] == theirs[:-1]
        last = ranks - 1
        repaired = [f"{last}F{int(a.split('F')[1]) - 1}" if "F" in a else a for a in theirs[-1]]
        assert ours[-1] == repaired


def without_eviction_order(row):
    """torch evicts in the order of a set; sorts each run of reshards."""
    result, run = [], []
    for cell in row:
        if "RESHARD" in cell:
            run.append(cell)
            continue
        result += sorted(run) + [cell]
        run = []
    return result + sorted(run)


def test_unshards_equal_torch(dump):
    requests = [("interleaved-1f1b", 2, 4, 8), ("interleaved-1f1b", 3, 6, 6), ("looped-bfs", 2, 5, 4),
                ("zbv", 4, 2, 8), ("dualpipev", 2, 2, 8), ("interleaved-zero-bubble", 2, 5, 8)]
    for request, plain, ours in zip(requests, dump(requests), dump(requests, "--unshard")):
        for row, our_row in zip(plain, ours):
            actions = [schedules._Action.from_str(cell) for cell in row]
            theirs = [str(a) for a in schedules._add_unshard_reshard(actions)]
            assert without_eviction_order(our_row) == without_eviction_order(theirs), request


def test_torch_reads_and_simulates_what_we_write(dump):
    """The CSV with transfers goes through torch's own parser and its dry run."""
    requests = [("1f1b", 4, 1, 8), ("interleaved-1f1b", 4, 2, 8), ("zbv", 4, 2, 8),
                ("dualpipev", 4, 2, 16), ("v-half", 4, 2, 12), ("zb-h2", 4, 1, 12)]
    for (name, ranks, chunks, _), rows in zip(requests, dump(requests, "--at-send")):
        style = "v" if name in ("zbv", "dualpipev", "v-half") else "loop"
        mapping = schedules.generate_stage_to_rank_mapping(ranks, ranks * chunks, style)
        order = {rank: [schedules._Action.from_str(cell) for cell in row]
                 for rank, row in enumerate(rows)}
        flat = {rank: [sub for a in row for sub in (a.sub_actions or (a,))]
                for rank, row in order.items()}
        simulated = schedules._simulate_comms_compute(flat, lambda s: mapping[s], ranks * chunks)
        assert sum(a is not None for row in simulated.values() for a in row) == sum(
            map(len, flat.values()))


V_TOPOLOGY = ("zbv", "v-half", "v-min", "dualpipev")


def lowered(request, rows):
    """torch's own sends and receives for the same computations."""
    name, ranks, chunks, _ = request
    stages = ranks * chunks
    place = schedules.generate_stage_to_rank_mapping(ranks, stages, "v" if name in V_TOPOLOGY else "loop")
    order = {rank: [schedules._Action.from_str(cell) for cell in row] for rank, row in enumerate(rows)}
    order = schedules._add_send_recv(order, stage_to_rank=lambda stage: place[stage], num_stages=stages)
    return [[str(action) for action in order[rank]] for rank in sorted(order)]


@pytest.fixture
def makespan(build_dir, tmp_path):
    """How long a schedule with transfers takes, by its rows and the costs of F, B, W and a transfer."""

    def run(rows, costs):
        path = tmp_path / "lowered.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        command = [build_dir / "bin" / "cleave-sim", f"--schedule={path}", "--transfers=nccl", "--json",
                   f"--costs={','.join(map(str, costs))}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return json.loads(done.stdout)["makespan"]

    return run


@pytest.mark.parametrize("receives, transfers", [("--comms", (0, 0.1, 0.5, 1, 2)), ("--at-send", (0, 0.1, 0.5))])
def test_transfers_are_no_slower_than_torch_s(receives, transfers, dump, makespan):
    """By default however long a transfer takes; with receives where a simulation makes the data, as long
    as it takes no more than half of a computation."""
    requests = [("interleaved-1f1b", 3, 5, 33), ("interleaved-1f1b", 4, 3, 16), ("interleaved-zero-bubble", 3, 4, 24),
                ("looped-bfs", 3, 2, 12), ("zbv", 2, 2, 16), ("zbv", 4, 2, 32), ("v-half", 4, 2, 16),
                ("1f1b", 4, 1, 16), ("zb-h1", 3, 1, 24), ("zb-h2", 4, 1, 16)]
    for request, rows, ours in zip(requests, dump(requests), dump(requests, receives)):
        theirs = lowered(request, rows)
        for transfer in transfers:
            costs = (1, 1, 1, transfer)
            assert makespan(ours, costs) <= makespan(theirs, costs) * (1 + 1e-9), (request, transfer)


def test_transfers_of_random_schedules_are_no_slower_than_torch_s(dump, makespan):
    """Ranks, chunks, microbatches, and costs that --insert-p2p knows nothing of."""
    random = Random(combinations_cover.seed())
    chunks = {name: (1,) for name in ("gpipe", "1f1b", "zb-h1", "zb-h2")}
    chunks |= {name: (2,) for name in V_TOPOLOGY}
    chunks |= {name: range(1, 6) for name in ("interleaved-1f1b", "interleaved-zero-bubble", "looped-bfs")}
    names = [random.choice(list(chunks)) for _ in range(100)]
    requests = [(name, random.randint(2, 8), random.choice(chunks[name]), random.randint(1, 40)) for name in names]
    compared = 0
    for request, rows, ours in zip(requests, dump(requests), dump(requests, "--comms")):
        if rows[0][0].startswith("error:"):
            continue  # torch's rules for ranks and microbatches
        costs = random.choice([(1, 1, 1), (1, 2, 1), (1, 1.2, 0.8)]) + (round(random.uniform(0, 2), 2),)
        assert makespan(ours, costs) <= makespan(lowered(request, rows), costs) * (1 + 1e-9), (request, costs)
        compared += 1
    assert compared > 50
