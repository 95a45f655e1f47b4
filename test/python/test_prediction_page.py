"""What the README says of predictions is what bench/results/prediction.md has."""

import re

import pytest
from test_words import SOURCE

from cleave import calibrate


@pytest.fixture(scope="module")
def sections():
    """The page's text by title of section."""
    _, *parts = (SOURCE / "bench/results/prediction.md").read_text().split("\n## ")
    return dict(part.split("\n", 1) for part in parts)


def medians(text):
    """The third column of a table of families."""
    rows = re.findall(r"^\| \w+ \| \d+ \| ([\d.]+) \|", text, re.MULTILINE)
    assert rows
    return [float(median) for median in rows]


def test_readme_has_the_figures_of_the_page(sections):
    readme = " ".join((SOURCE / "README.md").read_text().split())
    found = re.search(r"Over ([\d,]+) published runs, by family, the median error is (\d+) to (\d+) % with one set of "
                      r"constants fitted to all of them, (\d+) to (\d+) % on families left out", readme)  # fmt: skip
    assert found, "README.md does not say what predictions hold to"
    rows, *bounds = (int(number.replace(",", "")) for number in found.groups())
    fitted = sections["All rows in one fit"]
    assert rows == int(re.search(r"(\d+) judged", fitted)[1])
    inside, outside = medians(fitted), medians(sections["One family left out of the fit"])
    assert bounds == [round(bound(values)) for values in (inside, outside) for bound in (min, max)]


def test_the_page_has_the_constants_that_are_installed(sections):
    """Whoever calibrates again renews the page with it."""
    digest = re.search(r"\(digest (\w+)\)", sections["All rows in one fit"])[1]
    assert digest == calibrate.Files(SOURCE / "examples/devices").digest()


def test_rows_add_up(sections):
    """Families have all rows that are judged, which are listed one by one."""
    fitted = sections["All rows in one fit"]
    judged = int(re.search(r"(\d+) judged", fitted)[1])
    assert sum(map(int, re.findall(r"^\| \w+ \| (\d+) \|", fitted, re.MULTILINE))) == judged
    rows = re.search(r"```text\n(.*?)```", sections["Every row"], re.DOTALL)[1].splitlines()
    assert len(rows) == len({row.split()[0] for row in rows}) == judged
