"""What others find Cleave by without importing it: entry points, in a checkout as where it is installed.

`torch.compile(backend="cleave")` looks back ends up in the metadata of what is installed. A checkout on PYTHONPATH has
none, so importing it says what python/pyproject.toml would.
"""

from __future__ import annotations

import pathlib
import sys

_PACKAGE = pathlib.Path(__file__).resolve().parent
_FILES = {
    "METADATA": "Metadata-Version: 2.1\nName: cleave\nVersion: 0.1.0\n",
    "entry_points.txt": "[torch_dynamo_backends]\ncleave = cleave.backend:compile_graph\n",
}


class _Finder:
    """Finds no modules, only the distribution, as `importlib.metadata` asks for it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None

    @staticmethod
    def find_distributions(context=None):
        from importlib.metadata import Distribution

        class Checkout(Distribution):
            def read_text(self, filename):
                return _FILES.get(filename)

            def locate_file(self, path):
                return _PACKAGE.parent / path

        # Folders other than Python's own path are another tool's.
        is_asked = context is None or (context.name in (None, "cleave") and context.path is sys.path)
        return [Checkout()] if is_asked else []


def announce() -> None:
    """Once, and after those of what is installed, which come first."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
