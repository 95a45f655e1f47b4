"""--documents: several documents in a window, each of which a model takes as if it were alone."""

import cleave
import pytest
import torch
import training
from cleave.data import MixedBatches, TextBatches, pack_documents
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, LENGTH, ROWS, END, IGNORED = 128, 8, 24, 2, ord("\n"), -100
DOCUMENTS = f"end={END} positions=positions segments=ids mask=mask target=within"


class Packed(nn.Module):
    """One layer of attention, with positions. One head keeps documents apart by the mask, one by their numbers."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, positions, segments, mask):
        x = self.tokens(tokens) + self.places(positions)
        q, k, v = (each.unflatten(-1, (2, WIDTH // 2)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        numbered = (segments[:, None, :, None] == segments[:, None, None, :]) & causal
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.cat([mask, numbered], 1))
        return self.head(x + seen.transpose(1, 2).flatten(2))


def loss(logits, target):
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Lines of different lengths: longer than a window, empty, and as they come."""
    folder = tmp_path_factory.mktemp("text")
    lines = ["a" * 30, "", "bc", "the quick brown fox", "", "", "x", "jumps over it", "y" * 23, "lazy dog"] * 12
    (folder / "a.txt").write_text("\n".join(lines))
    (folder / "b.txt").write_text("\n".join(reversed(lines)))
    return folder


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    torch.manual_seed(0)
    module = Packed().double()
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH))
    positions, segments, mask = pack_documents(tokens, END)
    spec = cleave.ExportSpec(
        module, (tokens, positions, segments, mask.unsqueeze(1)), targets=(tokens.clone(),), loss=loss, name="packed",
        optimizer=torch.optim.SGD(module.parameters(), lr=0.5), mean_over="targets",
    )  # fmt: skip
    return spec, cleave.export_spec(spec, tmp_path_factory.mktemp("packed"))


def as_inputs(tokens, target):
    positions, segments, mask = pack_documents(tokens, END)
    return {"tokens": tokens, "positions": positions, "segments": segments, "mask": mask.unsqueeze(1),
            "target": target.masked_fill(tokens == END, IGNORED)}  # fmt: skip


def batches_of(source, steps, ranks=1, microbatches=1):
    """By input name, those of all ranks and microbatches of each step."""
    for step in range(1, steps + 1):
        numbers = [(rank, index) for rank in range(ranks) for index in range(microbatches)]
        parts = [as_inputs(*source.microbatch(step, *number)) for number in numbers]
        yield {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("form", ["one", "dp2", "mixture"])
def test_as_pytorch(build_dir, subject, text, tmp_path, form):
    """With the inputs that cleave.data makes."""
    spec, program = subject
    ranks, options, data = 1, ["--microbatches", 2], f"text:{text / 'a.txt'}"
    source = TextBatches([text / "a.txt"], ROWS, LENGTH, microbatches=2, seed=7)
    if form == "dp2":
        training.optimize(build_dir, program, "--sync-gradients=axis=dp", "-o", tmp_path / "dp.mlir")
        options += ["--weights", program.with_suffix(".safetensors"), "--ranks", 2]
        program, ranks = tmp_path / "dp.mlir", 2
        source = TextBatches([text / "a.txt"], ROWS, LENGTH, microbatches=2, ranks=2, seed=7)
    elif form == "mixture":
        data = f"mix:3=text:{text / 'a.txt'};1=text:{text / 'b.txt'}"
        shares = {"a.txt": 3, "b.txt": 1}
        terms = [(share, TextBatches([text / name], ROWS, LENGTH, seed=7)) for name, share in shares.items()]
        source = MixedBatches(terms, microbatches=2)
    output = training.train(build_dir, program, "--steps", 3, "--seed", 7, "--data", data, "--documents", DOCUMENTS,
                            "--metrics", tmp_path / "m", *options)  # fmt: skip
    assert f"in documents that end with {END}" in output
    batches = list(batches_of(source, 3, ranks, 2))
    assert any((batch["target"] == IGNORED).any() for batch in batches)
    expected = cleave.testing.train(spec, batches, microbatches=2 * ranks).losses
    assert training.losses(tmp_path / "m") == pytest.approx(expected, rel=1e-9)


def test_documents_are_as_if_alone(build_dir, subject, text, tmp_path):
    """The loss over packed windows is that over their documents one by one."""
    spec, program = subject
    output = training.train(build_dir, program, "--evaluate", "--quiet", "--data", f"text:{text / 'a.txt'}",
                            "--documents", DOCUMENTS)  # fmt: skip
    source = TextBatches([text / "a.txt"], ROWS, LENGTH, shuffle=False)
    total, count = 0.0, 0
    for step in range(1, source.windows // ROWS + 1):
        for tokens, target in zip(*source.microbatch(step)):
            ends = (tokens == END).nonzero().flatten().tolist()
            for begin, end in zip([0, *(e + 1 for e in ends)], [*(e + 1 for e in ends), LENGTH]):
                if begin == end:
                    continue
                alone = as_inputs(tokens[None, begin:end], target[None, begin:end])
                wanted = alone.pop("target")
                counted = int((wanted != IGNORED).sum())
                if counted:
                    total += loss(spec.module(*alone.values()), wanted).item() * counted
                    count += counted
    assert float(output.split()[-1]) == pytest.approx(total / count, rel=1e-8)


def test_a_run_resumes(build_dir, subject, text, tmp_path):
    _, program = subject
    options = [program, "--data", f"text:{text / 'a.txt'}", "--microbatches", 2, "--checkpoint", tmp_path / "run"]
    training.train(build_dir, *options, "--documents", DOCUMENTS, "--steps", 1)
    other = DOCUMENTS.replace(str(END), "97")
    result = training.run(build_dir, *options, "--documents", other, "--steps", 2, "--resume")
    assert result.returncode == 1 and "different data or a different order" in result.stderr
    training.train(build_dir, *options, "--documents", DOCUMENTS, "--steps", 2, "--resume")


def test_other_sources(build_dir, subject, text, tmp_path):
    """Of batches in a file, too, which then do not have what is made."""
    spec, program = subject
    source = TextBatches([text / "a.txt"], ROWS, LENGTH)
    tokens, target = source.microbatch(1)
    save_file({"tokens": tokens.contiguous(), "target": target.contiguous()}, tmp_path / "data.safetensors")
    training.train(build_dir, program, "--steps", 1, "--data", f"safetensors:{tmp_path / 'data.safetensors'}",
                   "--documents", DOCUMENTS, "--metrics", tmp_path / "m")  # fmt: skip
    batch = as_inputs(tokens, target)
    wanted = batch.pop("target")
    expected = loss(spec.module(*batch.values()), wanted).item()
    assert training.losses(tmp_path / "m") == pytest.approx([expected], rel=1e-9)


ERRORS = {
    "positions=positions": "expected end=TOKEN, the token that ends a document",
    "end=10": "expected end=TOKEN, the token that ends a document, and an INPUT=KIND",
    "end=-1 positions=positions": 'expected a token from 0 as end, found "-1"',
    "end=500 positions=positions segments=ids mask=mask": "the end 500 is outside the vocabulary of 128",
    "end=10 positions=places": 'found "positions=places"',
    "end=10 positions=positions positions=ids": 'found "positions" twice',
    "end=10 places=positions": 'expected one integer input [batch, time] with the tokens, found "tokens" and',
    "end=10 positions=positions segments=ids mask=mask places=ids": 'the program has no input "places"',
    "end=10 tokens=positions positions=positions segments=ids mask=mask": "expected an integer input",
    "end=10 positions=mask segments=ids mask=mask": '"positions" is I64 [2, 24], expected BOOL [2, 24, 24] or',
    "end=10 positions=positions segments=ids mask=ids": '"mask" is BOOL [2, 1, 24, 24], expected integers',
    "end=10 positions=within segments=ids mask=mask": 'a value for "within", found "positions"',
    "end=10 positions=positions segments=ids mask=mask target=ids": '"target" is a target',
}  # fmt: skip


@pytest.mark.parametrize("documents", ERRORS)
def test_errors(build_dir, subject, text, documents):
    _, program = subject
    data = f"text:{text / 'a.txt'}"
    result = training.run(build_dir, program, "--steps", 1, "--data", data, "--documents", documents)
    assert result.returncode == 1 and ERRORS[documents] in result.stderr, result.stderr
    assert result.stderr.count("error: ") == 1
