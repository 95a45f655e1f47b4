"""bench/solve.py: runs that are done are not repeated, and the page keeps what others wrote."""

import sys

import cleave_path
import pytest

sys.path.append(str(cleave_path.SOURCE / "bench"))
import solve as bench  # noqa: E402


def test_runs_that_are_noted_are_not_repeated(monkeypatch, tmp_path):
    made = []

    def solve(build, folder, row, part, seed):
        made.append((row["instance"], part, seed))
        if len(made) == 3:
            raise KeyboardInterrupt
        return 1 / seed, 100 * seed, 90, 2.5, 3.5, 60.0, [["1.0", "100", "90"]]

    monkeypatch.setattr(bench, "solve", solve)
    notes = tmp_path / "runs.jsonl"
    row = {"instance": "X"}
    with pytest.raises(KeyboardInterrupt):
        bench.runs_of(None, None, row, 0.5, 3, notes)
    runs = bench.runs_of(None, None, row, 0.5, 3, notes)
    assert made == [("X", 0.5, 1), ("X", 0.5, 2), ("X", 0.5, 3), ("X", 0.5, 3)]
    assert [run[1] for run in runs] == [300, 200, 100], "by score, so that the middle one is the median"
    # Another instance, part or seed is another run.
    bench.runs_of(None, None, row, 1.0, 1, notes)
    bench.runs_of(None, None, {"instance": "Y"}, 0.5, 1, notes)
    bench.runs_of(None, None, row, 0.5, 4, notes)
    assert made[4:] == [("X", 1.0, 1), ("Y", 0.5, 1), ("X", 0.5, 4)]


def test_writing_replaces_the_table_alone():
    page = bench.replace_section("# Title\n\nBy hand.\n", "packing", "first")
    page = bench.replace_section(page + "\nAlso by hand.\n", "table of 1 of the limits", "other")
    page = bench.replace_section(page, "packing", "second")
    assert "first" not in page
    assert [page.index(words) for words in ("By hand.", "second", "Also by hand.", "other")] == sorted(
        page.index(words) for words in ("By hand.", "second", "Also by hand.", "other"))
    with pytest.raises(SystemExit, match="expected '<!-- end of packing -->'"):
        bench.replace_section(page.replace("<!-- end of packing -->", ""), "packing", "third")
