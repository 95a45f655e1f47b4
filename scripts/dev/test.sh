# test.sh - the test suites and their summaries.

failed=()

# suite NAME TEXT COMMAND...: runs a suite with its output shown, and goes on if it fails.
suite() {
  local name=$1 text=$2 start=$SECONDS
  shift 2
  printf '==> %s\n' "$text"
  "$@" </dev/null || failed+=("$name")
  printf '    %s s\n' $((SECONDS - start))
}

run_tests() {
  local only=() start=$SECONDS
  paths=() # of pytest; all if empty
  export CLEAVE_TEST_ALL=
  while [ $# -gt 0 ]; do
    case $1 in
    --all) CLEAVE_TEST_ALL=1 ;;
    --torch)
      choose_torch "${2:-}"
      shift
      ;;
    --only)
      [[ ${2:-} =~ ^(format|unit|lit|python|install|docs)$ ]] ||
        die "--only expects format, unit, lit, python, install or docs, found '${2:-}'"
      only+=("$2")
      shift
      ;;
    -*) die "test has no option '$1'" ;;
    *)
      [[ -e ${1%%::*} && $1 = test/* ]] || die "test expects paths below test/, found '$1'"
      paths+=("$1")
      ;;
    esac
    shift
  done
  if [ ${#paths[@]} -gt 0 ]; then
    [ ${#only[@]} -gt 0 ] || only=(python)
    [ "${only[*]}" = python ] || die "paths are of suite python, found --only ${only[*]}"
  fi
  [ ${#only[@]} -gt 0 ] || only=(format unit lit python install docs)
  export CLEAVE_TEST_SEED=${CLEAVE_TEST_SEED:-$(date -u +%Y%m%d)}
  # Tests run side by side; threads below each would only fight over the cores.
  export OMP_NUM_THREADS=1
  # Without this, MKL's products on processors with AVX-512 round by where operands lie in memory, so that PyTorch
  # itself, with equal tensors, gives other bits from one run to another. Tests compare bits.
  export MKL_CBWR=AUTO,STRICT
  # Large pages, and memory in steps of 64 MiB: a start of cleave-run, of which tests make thousands, takes a sixth less.
  export GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864
  say "All tests: 35 to 70 minutes on 2 cores from a fresh clone, of which 5 are downloads and 10 to 35" \
    "the build. Seed of the pairwise cover: CLEAVE_TEST_SEED=$CLEAVE_TEST_SEED"
  setup_all
  build_preset release
  export CLEAVE_BUILD=$PWD/$(build_dir release)
  export PATH=$CLEAVE_BUILD/bin:$PWD/$venv/bin:$PATH
  export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
  local one
  for one in "${only[@]}"; do "test_$one"; done
  say "--- total: $((SECONDS - start)) s, seed $CLEAVE_TEST_SEED"
  [ -z "$CLEAVE_TEST_ALL" ] || record_full_product
  [ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
  say "all passed: ${only[*]}"
}

test_format() {
  command -v clang-format-22 >/dev/null || return 0
  suite format "format of C++ sources" run_format --check
}

test_unit() {
  local launch='^cleave_runtime_launch_test$'
  run_ctest unit "unit tests (ctest)" -E "$launch"
  # These kill real processes at real moments; a starved machine may need a second look. No other
  # test gets one.
  run_ctest launch "ranks that are lost (ctest)" -R "$launch" --repeat until-pass:2
}

run_ctest() {
  local name=$1 text=$2
  shift 2
  suite "$name" "$text" ctest --test-dir "$CLEAVE_BUILD" --output-on-failure -j "$jobs" "$@"
  # A program is one test to ctest; its cases are counted from the log.
  sed -n 's/^\[==========\] \([0-9]*\) tests\? from .* ran\..*/\1/p' "$CLEAVE_BUILD"/Testing/Temporary/LastTest.log |
    awk '{ cases += $1 } END { print "    " cases " cases" }'
}

test_lit() {
  # What an earlier run wrote must not stand in for what a test no longer makes.
  find "$CLEAVE_BUILD/test" -type d -name Output -prune -exec rm -rf {} +
  suite lit "dialects, passes and tools (lit)" .venv/bin/lit -s -j "$jobs" "$CLEAVE_BUILD/test"
}

test_python() {
  # A test waits a third of its time, for files and for ranks that wait for each other. What tests of a file share is
  # made once if one worker runs them all.
  suite python "export, execution and training (pytest)" "$venv/bin/python" -m pytest -q \
    -n "${CLEAVE_JOBS:-$((jobs + (jobs + 1) / 2))}" --dist loadfile -p no:cacheprovider --durations=40 "${paths[@]}"
}

test_install() {
  suite install "a user's pass and a user's trainer against the installed tree" \
    bash examples/check_installed.sh "$CLEAVE_BUILD"
}

test_docs() {
  setup_docs_python
  suite docs "documentation site" build_site build/docs
}

# The last run of the full product, for readers.
record_full_product() {
  local result="all passed"
  [ ${#failed[@]} = 0 ] || result="failed: ${failed[*]}"
  cat >docs/full-product.md <<EOF
# The full product of combinations

\`./dev test\` runs a pairwise cover of the combinations of model, dtype, ranks and options;
\`./dev test --all\` runs all of them and writes this page.

- date: $(date -u +%Y-%m-%d)
- commit: $(git rev-parse --short HEAD)
- time: $((SECONDS / 60)) minutes on $(nproc) cores
- result: $result
EOF
}
