"""The table of models that Cleave did not write: its page is whole, and rows come out as it says.

A cover rotates with the run's seed: a few models, each with one of the columns. All of them is what the script
itself runs.
"""

import math
import pathlib
import random

import combinations_cover
import hugging_face
import model_table
import other_models
import pytest
import timm_models
import torch
import torchtitan_models
from matrix_runs import Tools, difference

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "models.md"
ROWS = model_table.read(PAGE)
FIRST = model_table.FIRST
COMPARED = [title for title in model_table.COLUMNS if title not in FIRST]


def cover(count=4):
    """Rows with a column each."""
    chosen = random.Random(combinations_cover.seed())
    rows = sorted(ROWS)
    return [(*row, chosen.choice(COMPARED)) for row in chosen.sample(rows, min(count, len(rows)))]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def tools(build_dir):
    return Tools(build_dir)


def run(models, name, tools, *titles):
    return model_table.row(models.make, name, tools, {title: model_table.COLUMNS[title] for title in titles})


@pytest.mark.parametrize(("title", "name", "column"), cover(), ids=lambda value: value.replace("/", "-").replace(" ", "-"))
def test_a_row_is_as_the_page_says(title, name, column, tools):
    titles = [each for each in model_table.COLUMNS if each in (*FIRST, column)]
    said = dict(zip(model_table.COLUMNS, ROWS[title, name]))
    found = dict(zip(titles, run(model_table.LISTS[title], name, tools, *titles)))
    assert found["exported"] == said["exported"]
    for each in titles[1:]:
        assert model_table.is_result(found[each]) == model_table.is_result(said[each]), (each, found[each], said[each])


@pytest.mark.parametrize("name", random.Random(combinations_cover.seed()).sample(sorted(other_models.MODELS), 2))
def test_a_model_of_no_list_is_eager_mode_bit_for_bit(name, tools):
    size, result = run(other_models, name, tools, "exported", "one rank")
    # Gradients of experts' weights may be transposed products.
    assert size.endswith(" ops, rewritten") if name == "SwitchTransformers" else result == "bitwise", (size, result)


def test_the_page_has_every_list():
    for title, models in model_table.LISTS.items():
        assert any((title, name) in ROWS for name in models.MODELS), title


def test_a_row(tools):
    size, result, how, parallel = run(
        hugging_face, "BartForCausalLM", tools, "exported", "one rank", "compared in", "data parallel"
    )
    assert size.endswith(" ops, 1 branch decided") and result == "bitwise"
    assert how == "float64 to 1e-09" and 0 < float(parallel) <= 1e-9


def test_a_model_with_stochastic_depth(tools):
    """Its convolutions have standardized weights."""
    cells = run(timm_models, "nfnet_l0", tools, "exported", "compared in", "FSDP", "compiled, planned")
    assert all(map(model_table.is_result, cells)), cells


def test_a_refused_row(tools, monkeypatch):
    # A mask that is data says which tokens have global attention.
    family, head, _, changes = hugging_face.MODELS["AllenaiLongformerBase"]
    monkeypatch.setitem(hugging_face.MODELS, "masked", (family, head, hugging_face.words, changes))
    reason, *empty = run(hugging_face, "masked", tools, *model_table.COLUMNS)
    assert reason.startswith("refused: cannot trace the module at ") and "is_global_attn" in reason
    assert set(empty) == {""}


def test_a_column_that_is_refused(tools):
    """The row goes on after it."""
    *_, parallel, compiled = run(
        timm_models, "repvgg_a2", tools, "exported", "compared in", "tensor parallel", "split backward"
    )
    assert parallel == "refused: no layer of attention or MLP by name" and model_table.is_result(compiled)


def test_what_differs_is_said():
    expected = {"loss": torch.tensor(1.0), "grad.w": torch.tensor([1.0, 2.0])}
    assert model_table.compare(dict(expected), expected) == "bitwise"
    found = {**expected, "grad.w": torch.tensor([1.0, 2.5])}
    assert model_table.compare(found, expected) == "1 of 2 differ, grad.w most: 2.5e-01"
    with pytest.raises(model_table.Refused, match="grad.w is on one side only"):
        model_table.compare({"loss": expected["loss"]}, expected)


def training(**moments):
    """One of a parameter for each first moment."""
    tensors = {f"model.{name}": torch.ones(2) for name in moments}
    tensors |= {f"optimizer.{name}.exp_avg": torch.tensor([0.0, moment]) for name, moment in moments.items()}
    return model_table.Training(None, None, [1.0, 1.0], tensors, 1e-9, [], {"mean"})


def test_gradients_that_are_zero_by_mathematics():
    """What AdamW makes of their rounding does not count; that they are zero does."""
    one_rank = training(a=1.0, b=2.0, key=1e-16)
    rounded = training(a=1.0, b=2.0, key=-1e-16).tensors | {"model.key": torch.zeros(2)}
    assert one_rank.compare([1.0, 1.0], rounded)[0] == 0
    wrong = training(a=1.0, b=2.0, key=1e-3).tensors
    assert one_rank.compare([1.0, 1.0], wrong) == (math.inf, "optimizer.key.exp_avg")
    other = rounded | {"model.a": torch.tensor([1.0, 1.5])}
    assert one_rank.compare([1.0, 1.0], other) == (0.5, "model.a")


def test_buffers_of_ranks_that_share_gradients_alone():
    one_rank = training(a=1.0)
    one_rank.tensors["model.mean"] = torch.tensor(1.0)
    found = one_rank.tensors | {"model.mean": torch.tensor(2.0)}
    assert one_rank.compare([1.0, 1.0], found) == (1.0, "model.mean")
    assert one_rank.compare([1.0, 1.0], found, has_own_buffers=True)[0] == 0


def test_no_number_is_a_difference():
    expected = {"a": torch.tensor(1.0), "b": torch.tensor(1.0)}
    assert difference({"a": torch.tensor(1.5), "b": torch.tensor(math.nan)}, expected) == (math.inf, "b")


def test_other_rows_stay_on_the_page(tmp_path):
    rest = len(model_table.COLUMNS) - 1
    rows = {
        ("Hugging Face", "T5Small"): ["12 ops", "bitwise", "float64 to 1e-09", *["1e-12"] * (rest - 2)],
        ("Hugging Face", "GoogleFnet"): ["refused: a | b", *[""] * rest],
    }
    page = tmp_path / "models.md"
    model_table.write(page, rows)
    assert model_table.read(page) == rows
    text = page.read_text()
    assert "1 of 55 are exported, 1 bitwise" in text and "FSDP: 1;" in text and "Not run: AlbertForMaskedLM," in text
    assert text.index("| GoogleFnet") < text.index("| T5Small")  # the dashboard's order


def test_every_model_has_a_name_of_its_own():
    for models, count in ((hugging_face, 55), (timm_models, 18), (torchtitan_models, 5)):
        names = [name.rpartition("/")[2].lower() for name in models.MODELS]
        assert len(names) == len(set(names)) == count
