"""Source files as messages and locations name them."""

from __future__ import annotations

import os
import sys


def short_path(path: str) -> str:
    """`path` from the working directory or the import path it lies on, whichever is nearer.

    Thus a file has the name that one would import or open it by, and no machine's directories.
    """
    if not os.path.isabs(path):
        return path
    roots = [os.getcwd()] + [os.path.abspath(entry) for entry in sys.path]
    holding = [root for root in roots if path.startswith(root.rstrip(os.sep) + os.sep)]
    return os.path.relpath(path, max(holding, key=len)) if holding else path
