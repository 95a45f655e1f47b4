"""What hand-written trainers run on each rank, traced under PyTorch's fake process group, is proved to be the step of
one device, and with a known error in it is not."""

import functools
import json
import subprocess

import pytest
import rank_trainers
import torch
import torch.distributed as dist
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.distributed.fake_pg import FakeStore

from cleave.export.errors import ExportError
from cleave.export.rank_program import RankLayout, write_device_program, write_rank_program

RANKS = 8


@pytest.fixture(scope="module")
def group():
    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=RANKS)
    yield dist.group.WORLD
    dist.destroy_process_group()


def trace(function, shapes, **options):
    inputs = [
        torch.zeros(shape, dtype=torch.int64)
        if len(shape) == 1  # targets
        else torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in shapes
    ]
    return make_fx(lambda *given: function(*given, **options), tracing_mode="fake")(*inputs)


def part(shape, on):
    return [size // RANKS if on.get("tp") == dim else size for dim, size in enumerate(shape)]


@pytest.fixture
def prove(build_dir, tmp_path, group):
    def run(name, bug=None):
        function, shapes, takes, gives, _ = rank_trainers.TRAINERS[name]
        layout = RankLayout.from_json({
            "mesh": {"tp": RANKS}, "groups": {group.group_name: ["tp"]},
            "inputs": list(zip(rank_trainers.NAMES, takes, strict=False)),
            "outputs": [[f"result {i}", on] for i, on in enumerate(gives)],
        })  # fmt: skip
        local = [part(shape, on) for shape, on in zip(shapes, takes, strict=True)]
        ranks = [{"rank": rank} for rank in range(RANKS)] if name in rank_trainers.OF_RANKS else [{}]
        graphs = [trace(function, local, group=group, ranks=RANKS, bug=bug, **rank) for rank in ranks]
        texts = {
            "device": write_device_program(trace(function, shapes), layout),
            "rank": write_rank_program(graphs if len(graphs) > 1 else graphs[0], layout),
        }
        for stem, text in texts.items():
            (tmp_path / f"{stem}.mlir").write_text(text)
        result = subprocess.run(
            [build_dir / "bin" / "cleave-prove", tmp_path / "device.mlir", tmp_path / "rank.mlir", "--json",
             "--execute=false"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert result.returncode in (0, 2), result.stderr
        return json.loads(result.stdout), texts["rank"]

    return run


@pytest.mark.parametrize("name", rank_trainers.TRAINERS)
def test_trainers_are_proved(prove, name):
    answer, text = prove(name)
    assert answer["answer"] == "proved", answer["findings"]
    assert answer["results"] == len(rank_trainers.TRAINERS[name][3])
    assert "dist." in text and "tensor<16x8xf64, " not in text


@pytest.mark.parametrize(
    "name, bug", [(name, bug) for name, trainer in rank_trainers.TRAINERS.items() for bug in trainer[-1]]
)
def test_known_errors_are_not(prove, name, bug):
    answer, _ = prove(name, bug)
    assert answer["answer"] == "unknown" and answer["findings"], answer


def one_in_place(x, change):
    change(x)
    return [x]


def in_place(w, x, rank):
    """Collectives of `torch.distributed` that write into tensors, and several at once."""
    whole = w.new_empty(w.shape[0] * RANKS, w.shape[1])
    dist.all_gather_into_tensor(whole, w)
    y = torch.tanh(x @ whole.t())
    dist.broadcast(y, 2)
    total = y.t() @ x
    part = w.new_empty(w.shape)
    dist.reduce_scatter_tensor(part, total, op=dist.ReduceOp.AVG)
    loss = y.square().sum()
    dist.all_reduce(loss, op=dist.ReduceOp.MAX)
    loss.mul_(0.5)
    return [loss, part]


def coalesced(w, x, rank):
    import torch.distributed._functional_collectives as funcol

    group = dist.group.WORLD
    whole, again = funcol.all_gather_into_tensor_coalesced([w, w + w], group)
    y = torch.tanh(x @ (again - whole).t())
    (part,) = funcol.reduce_scatter_tensor_coalesced([y.t() @ x], "avg", [0], group)
    (loss,) = funcol.all_reduce_coalesced([y.square().sum() * 0.5], "avg", group)
    return [loss, part]


def around(w, x, rank):
    """What a rank sends to the next one, and gets back from there."""
    for step in (1, -1):
        received = torch.empty_like(w)
        send = dist.P2POp(dist.isend, w, (rank + step) % RANKS)
        receive = dist.P2POp(dist.irecv, received, (rank - step) % RANKS)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        w = received
    whole = dist._functional_collectives.all_gather_tensor(w, 0, dist.group.WORLD)
    y = torch.tanh(x @ whole.t())
    part = dist._functional_collectives.reduce_scatter_tensor(y.t() @ x, "avg", 0, dist.group.WORLD)
    return [y.square().sum() * 0.5, part]


def of_one_device(w, x):
    y = torch.tanh(x @ w.t())
    return [y.square().sum() * 0.5, y.t() @ x]


@pytest.mark.parametrize("step", [in_place, coalesced, around], ids=lambda step: step.__name__)
def test_how_collectives_are_called(build_dir, tmp_path, group, step):
    given = layout(
        groups={group.group_name: ["tp"]}, inputs=[["w", {"tp": 0}], ["x", {}]],
        outputs=[["loss", {}], ["w's gradient", {"tp": 0}]],
    )  # fmt: skip
    graphs = [
        make_fx(functools.partial(step, rank=rank), tracing_mode="fake")(torch.randn(2, 4), torch.randn(3, 4))
        for rank in range(RANKS)
    ]
    device = make_fx(of_one_device, tracing_mode="fake")(torch.randn(2 * RANKS, 4), torch.randn(3, 4))
    (tmp_path / "rank.mlir").write_text(write_rank_program(graphs, given))
    (tmp_path / "device.mlir").write_text(write_device_program(device, given))
    command = [build_dir / "bin" / "cleave-prove", tmp_path / "device.mlir", tmp_path / "rank.mlir", "--execute=false"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout.startswith("proved: 2 results"), result.stdout + result.stderr
    # Each collective is a part of the proof.
    text = (tmp_path / "rank.mlir").read_text()
    old, new = ("by 1 wrap", "by 2 wrap") if step is around else ("reduce_scatter avg", "reduce_scatter sum")
    wrong = text.replace(old, new)
    assert wrong != text
    (tmp_path / "rank.mlir").write_text(wrong)
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 2


def layout(**changes):
    document = {"mesh": {"tp": RANKS}, "groups": {}, "inputs": [["x", {}]], "outputs": [["y", {}]]}
    return RankLayout.from_json({**document, **changes})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"inputs": [["x", {"dp": 0}]]}, "input 'x' names axis 'dp', which the mesh does not have"),
        ({"inputs": [["x", {"tp": "S"}]]}, "expected a dimension"),
        ({"groups": {"0": ["dp"]}}, "group '0' names axis 'dp'"),
        ({"outputs": [["y", {}], ["y", {}]]}, "expected a name of its own for each output"),
        ({"more": 1}, "expected a layout of groups, inputs, mesh, outputs, found"),
    ],
)
def test_layouts_are_checked(changes, message):
    with pytest.raises(ExportError, match=message):
        layout(**changes)


def test_what_a_rank_runs_is_checked(group):
    import torch.distributed._functional_collectives as funcol

    def trace_one(function):
        return make_fx(function, tracing_mode="fake")(torch.randn(8, 4))

    summed = trace_one(lambda x: [funcol.all_reduce(x, "sum", group)])
    with pytest.raises(ExportError, match="process group .* of which the layout does not say which axes it is"):
        write_rank_program(summed, layout())
    with pytest.raises(ExportError, match="a collective; expected the program of one device"):
        write_device_program(summed, layout())
    gathered = trace_one(lambda x: [funcol.all_gather_tensor(x, 0, group)])
    with pytest.raises(ExportError, match="a group of 8 ranks; its axes have 2"):
        write_rank_program(gathered, layout(mesh={"tp": 2}, groups={group.group_name: ["tp"]}))
    exchanged = trace_one(lambda x: [funcol.all_to_all_single(x, [2, 0] + [1] * 6, [2, 0] + [1] * 6, group)])
    with pytest.raises(ExportError, match="an exchange of parts of different sizes"):
        write_rank_program(exchanged, layout(groups={group.group_name: ["tp"]}))
    seen = trace_one(lambda x: one_in_place(x.clone(), lambda y: dist.all_reduce(y.t())))
    with pytest.raises(ExportError, match="changes 't' in place, which is an argument, a view, or seen by one"):
        write_rank_program(seen, layout(groups={group.group_name: ["tp"]}))
    unsent = trace_one(lambda x: one_in_place(torch.empty_like(x), lambda y: dist.recv(y, 0)))
    with pytest.raises(ExportError, match="a rank receives before it sends"):
        write_rank_program(unsent, layout(groups={group.group_name: ["tp"]}))
    with pytest.raises(ExportError, match="expected 2 arguments, as the layout has inputs, found 1"):
        write_rank_program(summed, layout(inputs=[["x", {}], ["z", {}]]))


@pytest.mark.parametrize(
    "step, message",
    [
        (lambda x, rank: [x + rank * rank], "numbers of ranks that are not affine in their places"),
        (lambda x, rank: [x * rank], "'mul' differs between ranks by more than a number"),
        (lambda x, rank: [x.relu() if rank == 5 else x.abs()], "differs between ranks by more than a number"),
        (lambda x, rank: [x[: rank + 1] + 1], "differs between ranks by more than a number"),
        (lambda x, rank: [x.double() + rank], "expected one that is added to or compared with i64"),
    ],
)
def test_what_ranks_differ_by_is_checked(step, message):
    graphs = [
        make_fx(functools.partial(step, rank=rank), tracing_mode="fake")(torch.zeros(8, dtype=torch.int64))
        for rank in range(RANKS)
    ]
    with pytest.raises(ExportError, match=message):
        write_rank_program(graphs, layout())


def test_all_ranks_are_needed():
    graph = make_fx(lambda x: [x + 1], tracing_mode="fake")(torch.zeros(8, dtype=torch.int64))
    with pytest.raises(ExportError, match="expected a graph for each of 8 ranks, found 2"):
        write_rank_program([graph, graph], layout())
