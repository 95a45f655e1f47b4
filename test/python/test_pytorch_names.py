"""What PyTorch does not promise to keep is named in three modules."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "cleave"
HOMES = [PACKAGE / "export" / f"{name}.py" for name in ("pytorch", "pytorch_tracing", "pytorch_compile")]


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(text):
    """Names of torch with a part that begins with an underscore; operators are no names of Python's."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            parts = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            parts = [part for alias in node.names for part in alias.name.split(".") if alias.name.startswith("torch.")]
        elif isinstance(node, ast.Attribute):
            parts, at = [], node
            while isinstance(at, ast.Attribute):
                parts, at = [at.attr, *parts], at.value
            if not isinstance(at, ast.Name) or at.id != "torch" or parts[0] == "ops":
                continue
        else:
            continue
        if any(map(is_private, parts)):
            found.append(f"line {node.lineno}: {'.'.join(parts)}")
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_private_names_of_torch_are_in_their_modules(file):
    assert (file in HOMES) == (private_names(file.read_text()) != [])


@pytest.mark.parametrize(
    "text",
    [
        "import torch._dynamo",
        "from torch._guards import tracing",
        "from torch.fx.node import _side_effectful_functions",
        "import torch\ntorch._C._jit_get_all_schemas()",
        "import torch\ntorch.library._impls",
    ],
)
def test_a_private_name_is_found(text):
    assert private_names(text)


@pytest.mark.parametrize("text", ["import torch\ntorch.__version__", "import torch\ntorch.ops.aten._to_copy", "import _thread"])
def test_others_are_not(text):
    assert private_names(text) == []
