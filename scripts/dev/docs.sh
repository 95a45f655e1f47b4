# docs.sh - reference pages from what the sources say about themselves, and the conformance table.

# write_reference OUT: a page per dialect (the aten dialect: per category), per area of passes, and
# each tool's help.
write_reference() {
  local out=$1 tblgen=/usr/lib/llvm-22/bin/mlir-tblgen td name tool
  local includes=(-I . -I /usr/lib/llvm-22/include)
  rm -rf "$out"
  mkdir -p "$out/dialects/aten" "$out/passes" "$out/tools"
  for name in dialects/*/; do
    name=$(basename "$name")
    td=dialects/$name/${name^}.td
    [ ! -f "$td" ] ||
      "$tblgen" -gen-dialect-doc "-dialect=$name" "${includes[@]}" "$td" -o "$out/dialects/$name.md" ||
      return
  done
  for td in dialects/aten/ops/*.td; do
    name=$(basename "$td" .td)
    "$tblgen" -gen-op-doc "${includes[@]}" "$td" -o "$out/dialects/aten/$name.md" || return
  done
  for td in passes/*/Passes.td; do
    name=$(basename "$(dirname "$td")")
    "$tblgen" -gen-pass-doc "${includes[@]}" "$td" -o "$out/passes/$name.md" || return
  done
  for tool in build/bin/cleave-*; do
    "$tool" --help >"$out/tools/$(basename "$tool").txt" || return
  done
}

# The conformance table; it is replaced only once it is whole.
write_collectives() {
  OMP_NUM_THREADS=1 .venv/bin/python test/conformance/page.py build >build/collectives.md &&
    cp build/collectives.md docs/collectives.md
}
