"""Programs with kernels whose code a C compiler made: what the tests of the loader run."""

import subprocess

from cleave_run import CleaveRun  # noqa: F401

ROWS, COLUMNS, CHUNKS = 10, 48, 4

# y = x * x + b, and the sums of y's columns. The first phase takes rows, each chunk its share, and
# writes its sums to its part of the partials; the second adds the parts in order. MARK is added to
# y, for tests to tell which code has run; without code it is 0.
SOURCE = """
#include <stdint.h>
#define ROWS %(rows)d
#define COLUMNS %(columns)d
#define CHUNKS %(chunks)d

void square_add(void *const *tensors, int64_t chunk, void *scratch, void *partials) {
  const float *x = tensors[0], *b = tensors[1];
  float *y = tensors[2], *row = scratch, *sums = (float *)partials + chunk * COLUMNS;
  /* Misaligned memory shows in the result. */
  float mark = (uintptr_t)scratch %% 64 || (uintptr_t)partials %% 64 ? 1e6f : MARK;
  for (int j = 0; j < COLUMNS; ++j)
    sums[j] = 0;
  for (int64_t i = chunk * ROWS / CHUNKS; i < (chunk + 1) * ROWS / CHUNKS; ++i) {
    for (int j = 0; j < COLUMNS; ++j)
      row[j] = x[i * COLUMNS + j] * x[i * COLUMNS + j];
    for (int j = 0; j < COLUMNS; ++j)
      sums[j] += y[i * COLUMNS + j] = row[j] + b[j] + mark;
  }
}

void square_add_finish(void *const *tensors, int64_t chunk, void *scratch, void *partials) {
  float *sum = tensors[3];
  for (int j = chunk * COLUMNS / 2; j < (chunk + 1) * COLUMNS / 2; ++j) {
    sum[j] = 0;
    for (int part = 0; part < CHUNKS; ++part)
      sum[j] += ((float *)partials)[part * COLUMNS + j];
  }
}
""" % {"rows": ROWS, "columns": COLUMNS, "chunks": CHUNKS}

# The kernel's first operand is a view, whose strides are not those that code takes.
PROGRAM = """
{binaries}
exec.kernel @square_add(%x: tensor<10x48xf32>, %b: tensor<48xf32>) -> (tensor<10x48xf32>, tensor<48xf32>)
    attributes {{code = [#exec.code<cpu, phases = [<"square_add", chunks = 4>, <"{finish}", chunks = 2>],
                                   scratch = 192, partials = 768>]}} {{
  %0 = aten.mul(%x, %x) : (tensor<10x48xf32>, tensor<10x48xf32>) -> tensor<10x48xf32>
  %1 = aten.add(%0, %b) : (tensor<10x48xf32>, tensor<48xf32>) -> tensor<10x48xf32>
  %2 = aten.sum_dim_int_list(%1, dim = [0]) : (tensor<10x48xf32>) -> tensor<48xf32>
  exec.return %1, %2 : tensor<10x48xf32>, tensor<48xf32>
}}
func.func @microbatch(
    %x: tensor<48x10xf32> {{train.role = #train.role<input "x">}},
    %b: tensor<48xf32> {{train.role = #train.role<input "b">}})
    -> (tensor<10x48xf32> {{train.role = #train.role<output "0">}},
        tensor<48xf32> {{train.role = #train.role<output "1">}})
    attributes {{train.phase = #train.phase<microbatch>}} {{
  %0 = aten.t(%x) : (tensor<48x10xf32>) -> tensor<10x48xf32>
  %1:2 = exec.launch @square_add(%0, %b) : (tensor<10x48xf32>, tensor<48xf32>) -> (tensor<10x48xf32>, tensor<48xf32>)
  return %1#0, %1#1 : tensor<10x48xf32>, tensor<48xf32>
}}
{{-# dialect_resources: {{ builtin: {{ {resources} }} }} #-}}
"""


def compile_object(folder, mark=0, source=SOURCE, options=("-shared",)):
    """The bytes of a shared object; `mark` as in SOURCE."""
    path = folder / "kernels.c"
    path.write_text(source)
    command = ["cc", "-O1", "-fPIC", f"-DMARK={mark}.0f", *options, path, "-o", folder / "kernels.so"]
    subprocess.run(command, check=True)
    return (folder / "kernels.so").read_bytes()


def program_text(objects, finish="square_add_finish"):
    """The program with the code of a target, by the target's name."""
    binaries, resources = [], []
    for target, code in objects.items():
        name = target.replace("-", "_")
        binaries.append(f'exec.binary @{name} elf for "{target}" = '
                        f"dense_resource<{name}> : tensor<{len(code)}xi8>")  # fmt: skip
        # The first four bytes say how the others are to be aligned.
        resources.append(f'{name}: "0x40000000{code.hex()}"')
    return PROGRAM.format(
        binaries="\n".join(binaries), resources=", ".join(resources), finish=finish
    )
