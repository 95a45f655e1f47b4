"""Models that Cleave did not write are proved as bench/results/proof_models.md says: a cover that rotates with the run's seed."""

import pathlib
import random

import combinations_cover
import model_table
import prove_models
import pytest
import torch
from matrix_runs import Tools

PAGE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "results" / "proof_models.md"
ROWS = prove_models.read(PAGE)
MAKERS = {name: models.make for models in model_table.LISTS.values() for name in models.MODELS}


def cover(count=6):
    """Models, each with two forms in which it is proved."""
    chosen = random.Random(combinations_cover.seed())
    made = []
    for name in chosen.sample(sorted(ROWS), min(count, len(ROWS))):
        proved = [form for form, cell in zip(prove_models.FORMS, ROWS[name]) if cell.startswith("proved")]
        made.append((name, chosen.sample(proved, min(2, len(proved)))))
    return made


def test_the_page_is_whole():
    assert set(ROWS) == set(MAKERS)
    assert all(len(cells) == len(prove_models.FORMS) for cells in ROWS.values())
    cells = [cell for row in ROWS.values() for cell in row if not cell.startswith("refused")]
    assert sum(cell.startswith("proved") for cell in cells) >= 0.9 * len(cells)


@pytest.mark.parametrize(("name", "forms"), cover(), ids=lambda value: value.replace("/", "-") if isinstance(value, str) else "")
def test_a_model_is_proved_as_the_page_says(name, forms, build_dir, tmp_path):
    torch.set_num_threads(1)
    subject = prove_models.export(MAKERS[name], name, tmp_path, Tools(build_dir))
    for form in forms:
        assumed = ["exact-casts"] if "exact" in ROWS[name][prove_models.FORMS.index(form)] else []
        answer, _ = prove_models.prove(subject, form, *assumed)
        assert not answer["findings"], (form, answer["findings"][0])
        assert answer["results"] > 10
