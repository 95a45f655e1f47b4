"""Follows the guides of CONTRIBUTING.md and of the pages that it names, beside `test/dialects/aten/guide.test` (an op) and
`test/schedule/test_example_schedule.py` (a schedule): what they show is compiled as the build compiles its neighbours and loaded
into cleave-opt, and the places that they name are there."""

import itertools
import json
import pathlib
import re
import shlex
import subprocess
import textwrap

import pytest
from test_words import SOURCE

RULE_AND_FORMULA = """
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"
#include "lib/autodiff/Rules.h"
#include "lib/kernels/program/ProgramBuilder.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"

#define GET_OP_CLASSES
#include "Guide.h.inc"
#define GET_OP_CLASSES
#include "Guide.cpp.inc"

namespace rule {{
using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;
static void attachAll(MLIRContext &context) {{
{rule}
}}
}} // namespace rule

namespace formula {{
using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;
{formula}
void add(DecompositionTable &table) {{
{line}
}}
}} // namespace formula

static void extend(mlir::MLIRContext *context, cleave::aten::AtenDialect *dialect) {{
  cleave::aten::addOps<cleave::aten::LogitOp, cleave::aten::LogitBackwardOp>(dialect);
  rule::attachAll(*context);
  cleave::kernels::DecompositionTable table;
  formula::add(table);
}}
extern "C" mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() {{
  return {{MLIR_PLUGIN_API_VERSION, "Guide", "0.1",
          [](mlir::DialectRegistry *registry) {{ registry->addExtension(extend); }}}};
}}
"""

PASS_PLUGIN = """
#include "mlir/Tools/Plugins/PassPlugin.h"
extern "C" mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Guide", "0.1", [] { communication::registerWaitAtOnce(); }};
}
"""

LOGITS = """
func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.logit(%w, eps = 0.125) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = aten.logit(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = aten.sum(%1) : (tensor<8xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
"""


def section(page, title):
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", (SOURCE / page).read_text(), re.M | re.S)
    assert found, f"{page} has no section '{title}'"
    return found[1]


def code(text, language):
    """The blocks of a language; records have examples in fences of their own, further in."""
    blocks = re.findall(rf"^( *)```{re.escape(language)}\n(.*?)^\1```$", text, re.M | re.S)
    return [textwrap.dedent(block) for _, block in blocks]


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)


def checked(*command):
    done = run(*command)
    assert done.returncode == 0, f"{shlex.join(str(word) for word in command)}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def llvm(build_dir):
    """The prefix of the LLVM that the build uses."""
    cache = (build_dir / "CMakeCache.txt").read_text()
    return pathlib.Path(re.search(r"^MLIR_DIR:PATH=(.*)$", cache, re.M)[1]).parents[2]


@pytest.fixture(scope="module")
def tablegen(llvm):
    def generate(td, out, *action):
        checked(llvm / "bin/mlir-tblgen", *action, td, "-o", out, "-I", SOURCE, "-I", llvm / "include")

    return generate


@pytest.fixture(scope="module")
def build_plugin(build_dir):
    entries = json.loads((build_dir / "compile_commands.json").read_text())
    commands = {entry["file"]: entry["command"] for entry in entries}

    def build(source, neighbour):
        """Compiles and links `source` with the options of `neighbour`, and its folder before all others."""
        words = shlex.split(commands[str(SOURCE / neighbour)])
        compiler = next(i for i, word in enumerate(words) if word.endswith(("++", "++-22")))
        words = words[compiler:]
        words[words.index("-o") + 1] = source.with_suffix(".o")
        words[words.index("-c") + 1] = source
        done = subprocess.run([words[0], "-I", source.parent, *words[1:]], cwd=build_dir, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "warning:" not in done.stderr, done.stderr
        plugin = source.with_suffix(".so")
        checked(words[0], "-shared", source.with_suffix(".o"), "-o", plugin)
        return plugin

    return build


def test_rule_and_formula(build_dir, tablegen, build_plugin, tmp_path):
    """The op, its gradient's op, its rule and its formula compile; --autodiff applies the rule."""
    rule = section("docs/autodiff.md", "Adding a rule")
    kernels = section("CONTRIBUTING.md", "Support an op in compiled kernels")
    [record] = [block for block in code(section("CONTRIBUTING.md", "Add an op"), "tablegen") if "Aten_LogitOp" in block]
    td = tmp_path / "Guide.td"
    td.write_text('include "dialects/aten/ops/PointwiseBase.td"\n' + record + "".join(code(rule, "tablegen")))
    tablegen(td, tmp_path / "Guide.h.inc", "-gen-op-decls")
    tablegen(td, tmp_path / "Guide.cpp.inc", "-gen-op-defs")
    [attach], [formula, line] = code(rule, "cpp"), code(kernels, "c++")
    source = tmp_path / "Guide.cpp"
    source.write_text(RULE_AND_FORMULA.format(rule=attach, formula=formula, line=line))
    plugin = build_plugin(source, "lib/autodiff/rules/Activation.cpp")

    program = tmp_path / "logits.mlir"
    program.write_text(LOGITS)
    assert "logit" in run(build_dir / "bin/cleave-opt", program, "--autodiff").stderr
    text = checked(build_dir / "bin/cleave-opt", program, f"--load-dialect-plugin={plugin}", "--autodiff")
    backward = [line for line in text.splitlines() if "aten.logit_backward(" in line]
    assert len(backward) == 2, text
    assert "eps" not in backward[0] and re.search(r"eps = 0\.125|eps = 1\.25", backward[1]), text


def test_pass(build_dir, llvm, tablegen, build_plugin, tmp_path):
    guide = section("CONTRIBUTING.md", "Add a pass")
    [record], [cpp], [test] = code(guide, "tablegen"), code(guide, "c++"), code(guide, "mlir")
    area = pathlib.Path("passes/communication")
    [name] = re.findall(r"-gen-pass-decls -name (\w+)", (SOURCE / area / "CMakeLists.txt").read_text())
    td = (SOURCE / area / "Passes.td").read_text()
    end = td.rindex("#endif")
    (tmp_path / area).mkdir(parents=True)
    (tmp_path / area / "Passes.td").write_text(td[:end] + record + td[end:])
    tablegen(tmp_path / area / "Passes.td", tmp_path / area / "Passes.h.inc", "-gen-pass-decls", "-name", name)
    source = tmp_path / "WaitAtOnce.cpp"
    source.write_text(cpp + PASS_PLUGIN)
    plugin = build_plugin(source, "passes/communication/OverlapCommunication.cpp")

    path = tmp_path / "wait-at-once.mlir"
    path.write_text(test)
    [command] = re.findall(r"// RUN: cleave-opt %s (.*) \| FileCheck %s\n", test)
    cleave_opt = [build_dir / "bin/cleave-opt", path]
    for options, status in ([f"--load-pass-plugin={plugin}", *shlex.split(command)], 0), ([], 1):
        output = tmp_path / "output.mlir"
        output.write_text(checked(*cleave_opt, *options))
        assert run(llvm / "bin/FileCheck", path, "--input-file", output).returncode == status, output.read_text()


def named_paths(text):
    for word in re.findall(r"`([\w.-]+(?:/[\w.{},*-]*)+)`", text):
        parts = [part.split(",") for part in re.split(r"[{}]", word)]
        yield from ("".join(choice) for choice in itertools.product(*parts))


@pytest.mark.parametrize("page, title", [
    ("CONTRIBUTING.md", "Add an op"), ("CONTRIBUTING.md", "Give an op its sharding rule"), ("CONTRIBUTING.md", "Change the type checker"),
    ("CONTRIBUTING.md", "Add a fold"), ("CONTRIBUTING.md", "Add a derivative"), ("CONTRIBUTING.md", "Support an op in compiled kernels"),
    ("CONTRIBUTING.md", "Add a backend"), ("CONTRIBUTING.md", "Add a pass"), ("docs/autodiff.md", "Adding a rule"),
    ("docs/schedules.md", "A schedule of your own")])  # fmt: skip
def test_places_are_there(page, title):
    paths = [path for path in named_paths(section(page, title)) if not re.search(r"\b[A-Z]{4,}\b|^(build|torchgen)/", path)]
    for path in paths:
        assert any(SOURCE.glob(path)), f"{title}: {path}"


def test_processors_are_one_list():
    """What verifier, code generator and runtime read names what the help texts name."""
    levels = re.findall(r'"(x86-64-v\d)"', (SOURCE / "dialects/exec/CpuLevels.h").read_text())
    chips = re.findall(r'^ *\{"(sm_\d+)"', (SOURCE / "lib/kernels/gpu/Chip.cpp").read_text(), re.M)
    assert len(levels) > 1 and len(chips) > 1
    for file, names in ("passes/lowering/Passes.td", levels + chips), ("tools/cleave-run/Options.cpp", levels), ("docs/run.md", levels):
        text = (SOURCE / file).read_text()
        assert [name for name in names if name not in text] == [], file
    for name in levels[0], chips[0]:
        for file in ("dialects/exec/Code.cpp", "lib/kernels/cpu/EmitKernel.cpp"):
            assert f'"{name}"' not in (SOURCE / file).read_text(), file


def test_schedules_of_the_library_are_listed():
    """The three places beside the file that docs/schedules.md names."""
    folder = SOURCE / "lib/schedule/builders"
    [words] = re.findall(r"set\(builders ([^)]*)\)", (SOURCE / "lib/schedule/CMakeLists.txt").read_text())
    assert sorted(words.split()) == sorted(path.stem for path in folder.glob("*.cpp"))
    declared = re.findall(r"(create\w+)\(\);", (folder / "Builders.h").read_text())
    added = re.findall(r"add\((create\w+)\(\)", (folder / "Builtin.cpp").read_text())
    assert sorted(declared) == sorted(added) != []
