"""The table of models that Cleave did not write: its rows come out as it says, and stay on the page."""

import hugging_face
import model_table
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_row(build_dir):
    size, result = model_table.row(hugging_face.make, "BartForCausalLM", build_dir)
    assert size.endswith(" ops, 1 branch decided") and result == "bitwise"


def test_a_refused_row(build_dir):
    reason, empty = model_table.row(hugging_face.make, "AllenaiLongformerBase", build_dir)
    assert reason.startswith("refused: cannot trace the module at ") and "is_global_attn" in reason and not empty


def test_what_differs_is_said():
    expected = {"loss": torch.tensor(1.0), "grad.w": torch.tensor([1.0, 2.0])}
    assert model_table.compare(dict(expected), expected) == "bitwise"
    found = {**expected, "grad.w": torch.tensor([1.0, 2.5])}
    assert model_table.compare(found, expected) == "1 of 2 differ, grad.w most: 2.5e-01"
    with pytest.raises(model_table.Refused, match="grad.w is on one side only"):
        model_table.compare({"loss": expected["loss"]}, expected)


def test_other_rows_stay_on_the_page(tmp_path):
    rows = {
        ("Hugging Face", "T5Small"): ["12 ops", "bitwise"],
        ("Hugging Face", "GoogleFnet"): ["refused: a | b", ""],
    }
    page = tmp_path / "models.md"
    model_table.write(page, rows)
    assert model_table.read(page) == rows
    assert "1 of 55 are exported, 1 bitwise" in page.read_text()
    assert page.read_text().index("GoogleFnet") < page.read_text().index("T5Small")  # the dashboard's order


def test_every_model_has_a_name_of_its_own():
    names = [name.rpartition("/")[2].lower() for name in hugging_face.MODELS]
    assert len(names) == len(set(names)) == 55
