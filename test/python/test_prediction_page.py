"""What the README says of predictions is what bench/results/prediction.md has, and what the page says follows from its
figures."""

import re
import sys

import pytest
from test_words import SOURCE

from cleave import calibrate

sys.path.insert(0, str(SOURCE / "bench"))
import prediction  # noqa: E402
import ranking  # noqa: E402


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


def test_the_aims_correlation_is_the_one_that_the_baseline_has(sections):
    pairs, means = (0.829, 0.809), (0.824, 0.868)
    assert prediction.describe_aim(pairs, means).endswith("nearer to that are those over all pairs.")
    assert prediction.describe_aim(means, pairs).endswith("nearer to that are those as the mean of groups.")
    text = sections["Ranking of plans"]
    found = [re.search(rf"^\| vtrain_{name} \|.*", text, re.MULTILINE)[0].split(" | ") for name in ("single", "multi")]
    assert prediction.describe_aim(*([float(row[at]) for row in found] for at in (3, 5))) in text


def test_plans_that_are_sums_are_found_out():
    """Of plans that are put together, the transfer is what it was; those that were measured are further off."""
    def row(layers, stages, microbatches, factor=1):
        plan = {"hidden": "1024", "seq": "1024", "micro_batch": "1", "tp": "1", "dp": "1", "layers": str(layers),
                "pp": str(stages), "microbatches": str(microbatches)}
        parts = 3e-3, 3e-3, 6e-3, ranking.transfer(plan), 2e-4, 1e-3
        return plan | {"step_time_s": repr(factor * sum(map(lambda a, b: a * b, parts, ranking.exact_terms(plan))))}

    plans = [(layers, stages, microbatches) for layers in (12, 24) for stages in (1, 2, 4) for microbatches in (4, 8)]
    *_, exact = ranking.describe_sums([row(*plan) for plan in plans])
    assert exact == "| 1024 | 1 | 12 | 0.0 | 0.3125 | 0.3125 |"
    *_, measured = ranking.describe_sums([row(*plan, 1 + at % 3 / 100) for at, plan in enumerate(plans)])
    assert float(measured.split(" | ")[3]) > 1000
