"""Pairwise covers of test combinations.

A full product of models, dtypes, ranks and options takes too long for every run, while almost all
defects show with two of the values together. `cover` picks combinations such that every pair of
values of any two axes that may stand together occurs in at least one. Which combinations these
are depends on the seed, so that over several days the product is visited widely;
`./dev test --all` (CLEAVE_TEST_ALL=1) runs the whole product. Of two axes the pairs are the product:
tests of two take a cover of values where a case is slow, and days make the pairs.
"""

import datetime
import itertools
import os
import random

import pytest


def seed():
    """The run's seed: CLEAVE_TEST_SEED, or today's date as YYYYMMDD."""
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
    return int(os.environ.get("CLEAVE_TEST_SEED") or today)


def run_all():
    """Whether the full product is asked for."""
    return os.environ.get("CLEAVE_TEST_ALL", "0") not in ("", "0")


def part_of_today(cases, parts=2):
    """Each `parts`-th of the cases, another part by the run's seed; all with CLEAVE_TEST_ALL=1."""
    return cases if run_all() else cases[seed() % parts :: parts]


def cover(axes, allowed=lambda combination: True, order=None, strength=2):
    """Combinations of `axes` (a dict from axis name to a list of values) as a list of dicts.

    `allowed` tells which combinations make sense. With CLEAVE_TEST_ALL all that are allowed are
    given, otherwise a greedy cover of them: the run's, or with `order` always the same. It has every
    pair of values of two axes, or with a strength of 1 every value.
    """
    names = list(axes)
    product = [dict(zip(names, values)) for values in itertools.product(*axes.values())]
    product = [combination for combination in product if allowed(combination)]
    if run_all():
        return product
    random.Random(seed() if order is None else order).shuffle(product)

    def parts(combination):
        return set(itertools.combinations([(name, combination[name]) for name in names], strength))

    wanted = set().union(*map(parts, product)) if product else set()
    if len(names) < strength:
        return product
    chosen = []
    while wanted:
        best = max(product, key=lambda combination: len(parts(combination) & wanted))
        chosen.append(best)
        wanted -= parts(best)
    return chosen


def covered(axes, allowed=lambda combination: True, strength=2):
    """Parametrizes a test by a cover of `axes`, each of which is what `pytest.mark.parametrize` is given: names of arguments, and
    values for them; with a dict, values by what they are called in the test's id and by `allowed`."""
    values = {names: of if isinstance(of, dict) else _labelled(names, of) for names, of in axes.items()}
    chosen = cover({names: list(of) for names, of in values.items()}, allowed, strength=strength)
    cases = []
    for each in chosen:
        given = [(values[names][label], "," in names) for names, label in each.items()]
        cases.append(tuple(value for of, is_several in given for value in (of if is_several else [of])))
    return pytest.mark.parametrize(",".join(axes), cases, ids=[name(each) for each in chosen])


def _labelled(names, values):
    """The values by what pytest calls them: by themselves, if they are short."""
    labels = []
    for i, value in enumerate(values):
        parts = value if "," in names else [value]
        is_short = all(isinstance(part, str | int | float) for part in parts)
        labels.append("-".join(map(str, parts)) if is_short else f"{names.split(',')[0]}{i}")
    return dict(zip(labels, values, strict=True))


def name(combination):
    """A test id: `gpt-bf16-2`."""
    return "-".join(str(value) for value in combination.values())
