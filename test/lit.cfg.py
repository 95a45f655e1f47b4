"""The lit suite: text tests of dialects, passes and tools, mirroring the source tree."""

import os
import shutil

import lit.formats

config.name = "cleave"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# Inputs are data of other tests; unit tests and pytest have runners of their own.
config.excludes = ["Inputs", "unit", "e2e", "python", "conformance"]
config.test_source_root = os.path.join(config.cleave_source, "test")
config.test_exec_root = os.path.join(config.cleave_build, "test")

path = [os.path.join(config.cleave_build, "bin"), config.llvm_bin, os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["PYTHONPATH"] = os.path.join(config.cleave_source, "python")
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=all"
# Tests run side by side; threads below each would only fight over the cores.
config.environment["OMP_NUM_THREADS"] = "1"

config.substitutions.append(("%python", config.python))
config.substitutions.append(("%cleave_source", config.cleave_source))
config.substitutions.append(("%cleave_build", config.cleave_build))
if config.has_runtime:
    config.available_features.add("runtime")
# Kernels for GPUs are compiled where a CUDA toolkit is, and need no GPU for it.
if "CUDA_HOME" in os.environ:
    config.environment["CUDA_HOME"] = os.environ["CUDA_HOME"]
if "CUDA_HOME" in os.environ or shutil.which("ptxas"):
    config.available_features.add("cuda-toolkit")
