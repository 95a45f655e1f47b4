"""`Program.ops`, `Program.rewrite` and figures: passes in Python, and what a notebook shows."""

import re

import cleave_path  # noqa: F401
import cleave
import gpt
import pytest
import torch
import torch.nn.functional as F
from cleave import figures

pytestmark = pytest.mark.usefixtures("one_thread")


class Twice(torch.nn.Module):
    """What a pass may simplify: a relu of a relu."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.relu(torch.relu(self.linear(x)))


def traced():
    torch.manual_seed(0)
    module = Twice()
    x, y = torch.randn(6, 8), torch.randint(4, (6,))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return module, (x, y), cleave.trace(module, (x,), loss=F.cross_entropy, targets=(y,), optimizer=optimizer, name="twice")


def test_ops_of_a_program():
    _, _, program = traced()
    names = [op.name for op in program.ops()]
    assert names[:2] == ["train.program", "func.func"] and "aten.addmm" in names
    (multiply,) = program.ops("aten.addmm")
    assert multiply.function == "microbatch"
    assert "test_program_ops.py" in multiply.location
    assert str(multiply).strip() in str(program) or "aten.addmm" in str(multiply)
    assert [value.type for value in multiply.operands] == ["tensor<4xf32>", "tensor<6x8xf32>", "tensor<8x4xf32>"]
    assert multiply.operands[1].op is None and multiply.operands[2].op.name == "aten.t"
    assert multiply.result.type == "tensor<6x4xf32>"
    assert [op.name for op in multiply.result.users][0] == "aten.relu"
    assert multiply in multiply.operands[2].users and len({multiply, *program.ops("aten.addmm")}) == 1


def test_attributes_are_a_mapping_of_texts():
    _, _, program = traced()
    (loss,) = program.ops("aten.nll_loss_forward")
    assert loss.attributes["ignore_index"] == "-100 : i64"
    with pytest.raises(KeyError):
        del loss.attributes["nothing"]

    def ignore(program):
        for op in program.ops():
            if "ignore_index" in op.attributes:
                op.attributes["ignore_index"] = "7"
            if "train.backward" in op.attributes:
                del op.attributes["train.backward"]

    program.rewrite(ignore)
    assert len(re.findall(r"aten.nll_loss_\w+\(.*ignore_index = 7", str(program))) == 2
    assert "train.backward" not in str(program)


def drop_second_relu(program):
    """relu(relu(x)) is relu(x), and so is its backward."""
    for op in program.ops("aten.relu"):
        first = op.operands[0].op
        if first is not None and first.name == "aten.relu":
            op.replace(first.result)


def test_a_pass_in_python():
    _, (x, y), program = traced()
    _, _, whole = traced()
    assert len(program.ops("aten.relu")) == 2
    assert program.rewrite(drop_second_relu) is program
    assert len(program.ops("aten.relu")) == 1
    # What runs is the same.
    losses = [[session.step([x, y]) for _ in range(3)] for session in map(cleave.Session, (program, whole))]
    assert losses[0] == losses[1]
    program.run_passes("canonicalize,cse")


def test_an_op_that_is_made():
    _, (x, y), program = traced()
    expected = cleave.Session(traced()[2]).step([x, y])

    def double(program):
        """The logits, by an op of their own before the loss."""
        (softmax,) = program.ops("aten._log_softmax")
        logits = softmax.operands[0]
        made = softmax.insert_before("aten.neg", [logits], types=[logits.type])
        softmax.set_operand(0, softmax.insert_before("aten.neg", [made.result], types=[logits.type]).result)

    program.rewrite(double)
    assert len(program.ops("aten.neg")) == 2
    assert cleave.Session(program).step([x, y]) == expected


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: p.ops("aten.relu")[0].erase(), r"'aten.relu' cannot be erased: 'aten.\w+' uses it"),
        (lambda p: p.ops("aten.relu")[0].replace(p.ops("aten.t")[0].result), r"expected a value of type tensor<6x4xf32>"),
        (lambda p: p.ops("aten.relu")[0].replace([]), "expected 1 values to replace 'aten.relu', found 0"),
        (lambda p: p.ops("aten.relu")[0].insert_before("aten.nothing"), "no op is called 'aten.nothing'"),
        (lambda p: p.ops("aten.relu")[0].insert_before("aten.neg", types=["tensor<"]), "expected a type in MLIR's syntax"),
        (lambda p: p.ops("aten.relu")[0].attributes.update(a="<"), "'a': expected an attribute in MLIR's syntax, found '<'"),
        (lambda p: p.ops("aten.relu")[0].set_operand(3, p.ops("aten.t")[0].result), "'aten.relu' has 1 operands, no number 3"),
        # Found when it is verified.
        (lambda p: p.ops("aten.relu")[0].set_operand(0, p.ops("aten.t")[0].result), r"(?s)error: .*the check after the rewrite"),
        (lambda p: p.rewrite(lambda q: None), "is being rewritten already"),
        (lambda p: p.run_passes("cse"), "passes cannot run while the program is being rewritten"),
    ],
)
def test_a_change_that_is_refused_leaves_the_program_as_it_was(change, text):
    _, _, program = traced()
    before = str(program)
    with pytest.raises(cleave.Error, match=text):
        program.rewrite(change)
    assert str(program) == before
    program.rewrite(lambda p: None)


def test_an_exception_of_a_pass_leaves_the_program_as_it_was():
    _, _, program = traced()
    before = str(program)

    def fails(program):
        drop_second_relu(program)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program.rewrite(fails)
    assert str(program) == before


def test_ops_that_are_gone():
    _, _, program = traced()
    gone = program.ops("aten.relu")
    with pytest.raises(cleave.Error, match="a program changes only in Program.rewrite"):
        gone[0].attributes["a"] = "1"
    program.rewrite(drop_second_relu)
    with pytest.raises(cleave.Error, match="the op is gone: it was erased, or passes have run since"):
        gone[1].operands
    program.run_passes("cse")
    with pytest.raises(cleave.Error, match="the op is gone"):
        gone[0].name


# Figures --------------------------------------------------------------------------------------------


def test_costs_of_a_step():
    _, _, program = traced()
    costs = program.costs()
    assert costs.parameter_bytes == 4 * (8 * 4 + 4)
    assert costs.flops > 0 and dict(costs.ops)["aten.relu"] == 2
    assert costs.peak_bytes >= costs.parameter_bytes
    assert "parameters" in str(costs)
    page = costs._repr_html_()
    assert f'parameter</td><td style="text-align: right">{costs.parameter_bytes}</td>' in page
    assert page.count("<table>") == page.count("</table>")


def test_costs_of_the_ranks_of_a_pipeline():
    spec = gpt.tied()
    program = cleave.trace(spec.module, spec.args, loss=spec.loss, targets=spec.targets, optimizer=spec.optimizer)
    program.run_passes("outline-stages{count=2 balance=cost}")
    program.run_passes("build-schedule{schedule=1f1b ranks=2 microbatches=4},insert-p2p")
    first, second = program.costs()
    assert [each[0] for each in first.communication] == ["send"] and "send" in first._repr_html_()
    assert first.saved_bytes > second.saved_bytes  # more microbatches in flight
    page = program.costs()._repr_html_()
    for name in ("saved", "gradient"):
        numbers = [f"{getattr(each, f'{name}_bytes'):,}" for each in (first, second)]
        assert re.search(rf">{name}</td><td[^>]*>{numbers[0]}</td><td[^>]*>{numbers[1]}</td>", page), page
    assert ">rank 1</th>" in page and "rank 1\nmemory (bytes)" in str(program.costs())


def test_programs_in_a_notebook(monkeypatch):
    """Counts by role, and each function, to be opened; test_programs_in_python.py has what the texts are."""
    _, _, program = traced()
    page = program._repr_html_()
    assert re.search(r">parameter</td><td[^>]*>2</td><td[^>]*>36</td><td[^>]*>144</td>", page)
    ops = [op for op in program.ops() if op.function == "microbatch" and op.name != "func.func"]
    assert re.search(rf"<code>@microbatch</code>: {len(ops)} ops \(.*aten\.relu 2, ", page) and "<code>@update</code>" in page
    assert page.count("<details>") == page.count("</details>") == 2
    assert "%arg0: tensor&lt;4x8xf32&gt;" in page and "tensor<" not in page
    monkeypatch.setattr(figures, "_LINES", 10)
    assert re.search(r"… \d+ lines more: print\(program\)</pre>", program._repr_html_())
    # What is no whole program, too.
    assert "<code>@f</code>" in cleave.Program("func.func @f() { return }")._repr_html_()


def products_in_bfloat16(program):
    """A pass as a user writes it: products of matrices take and make bfloat16, and everything around them float32."""
    for op in program.ops("aten.mm"):
        narrow = [
            op.insert_before("aten._to_copy", [operand], {"dtype": "bf16"}, [operand.type.replace("f32", "bf16")]).result
            for operand in op.operands
        ]
        product = op.insert_before("aten.mm", narrow, op.attributes, [op.result.type.replace("f32", "bf16")]).result
        op.replace(op.insert_before("aten._to_copy", [product], {"dtype": "f32"}, [op.result.type]).result)


class Narrow(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return (x.bfloat16() @ weight.t().bfloat16()).float()

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        narrow = gradient.bfloat16()
        return (narrow @ weight.bfloat16()).float(), (gradient.t().bfloat16() @ x.bfloat16()).float()


def test_a_pass_that_changes_types():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16, bias=False), torch.nn.Tanh(), torch.nn.Linear(16, 4, bias=False))
    x, y = torch.randn(6, 8), torch.randint(4, (6,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    program = cleave.trace(model, (x,), loss=F.cross_entropy, targets=(y,), optimizer=optimizer)
    count = len(program.ops("aten.mm"))
    program.rewrite(products_in_bfloat16)
    assert len(program.ops("aten.mm")) == count == 5 and len(program.ops("aten._to_copy")) == 15
    assert sum("train.backward" in op.attributes for op in program.ops("aten.mm")) == 3
    session = cleave.Session(program)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(Narrow.apply(model[1](Narrow.apply(x, model[0].weight)), model[2].weight), y)
        loss.backward()
        optimizer.step()
        assert session.step([x, y]) == loss.item()
    assert torch.equal(session.weight("0.weight"), model[0].weight)
    program.run_passes("canonicalize,cse")


def test_how_ops_and_values_are_shown():
    _, _, program = traced()
    (multiply,) = program.ops("aten.addmm")
    assert repr(multiply) == "<cleave op 'aten.addmm': tensor<6x4xf32>>"
    bias, x, weight = multiply.operands
    assert repr(weight) == "<cleave value, of 'aten.t': tensor<8x4xf32>>"
    assert re.fullmatch(r"<cleave value, argument \d+: tensor<4xf32>>", repr(bias))
    program.run_passes("cse")
    assert repr(multiply) == "<cleave op, gone>" and repr(bias) == "<cleave value, gone>"


def test_an_op_that_is_not_valid_can_be_printed():
    """Its operands are missing, or an attribute is of another kind; the program is refused as a whole."""
    _, _, program = traced()
    before = str(program)

    def change(program):
        (loss,) = program.ops("aten.nll_loss_forward")
        made = loss.insert_before("aten.mm")
        assert "aten.mm" in str(made) and "aten.mm" in repr(made) and made.operands == []
        loss.attributes["ignore_index"] = '"none"'
        assert "nll_loss_forward" in str(loss)

    with pytest.raises(cleave.Error, match="aten"):
        program.rewrite(change)
    assert str(program) == before


def test_timelines(tmp_path):
    spec = gpt.tied()
    program = cleave.trace(spec.module, spec.args, loss=spec.loss, targets=spec.targets, optimizer=spec.optimizer)
    program.run_passes("outline-stages{count=2 balance=cost}")
    one = program.timeline(schedule="gpipe", ranks=2, microbatches=4, costs="1,1,1,0")
    other = program.timeline(schedule="1f1b", ranks=2, microbatches=8, costs="1,1,1,0")
    assert one.figures["makespan"] < other.figures["makespan"]
    assert one._repr_html_().startswith('<iframe srcdoc="') and "gpipe" in one.save(tmp_path / "timeline.html").read_text()
    with pytest.raises(cleave.Error, match="expected .*schedule"):
        program.timeline(costs="1,1,1,0")


def test_pictures(tmp_path):
    spec = gpt.tied()
    program = cleave.trace(
        spec.module, spec.args, loss=spec.loss, targets=spec.targets, optimizer=spec.optimizer, mesh={"dp": 2},
        plan={"": cleave.DataParallel("dp")},
    )  # fmt: skip
    before = str(program)
    picture, page = program.memory_plot(), program.placements()
    assert str(program) == before
    assert picture._repr_svg_().startswith("<svg") and picture.save(tmp_path / "memory.svg").read_text() == picture.svg
    assert "wte.weight" in page.html and page._repr_html_().startswith('<iframe srcdoc="')
    assert "<script" not in page._repr_html_()  # escaped, so that it runs inside of the frame
    with pytest.raises(cleave.ExportError, match="without a mesh and a plan"):
        traced()[2].placements()
