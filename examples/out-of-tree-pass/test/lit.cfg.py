"""Tests of the example's pass, with the installed cleave-opt."""

import os

import lit.formats

config.name = "out-of-tree-pass"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.cleave_tools, config.llvm_bin, os.environ.get("PATH", "")]
)
config.substitutions.append(("%plugin", config.plugin))
