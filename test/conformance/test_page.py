"""docs/collectives.md is what page.py makes of this build."""

from conformance.page import page
from conformance.tools import Tools


def test_the_page_is_the_generated_one(build_dir, source_dir, tmp_path):
    expected = page(Tools(build_dir, tmp_path))
    found = (source_dir / "docs" / "collectives.md").read_text()
    assert found == expected, "run ./dev collectives"
