# docs.sh - the documentation site, and the conformance table.

# build_site OUT: the site in OUT/html. A broken link, a page outside of the navigation or a picture that a
# tool does not make is an error.
build_site() {
  .venv/bin/python scripts/check_links.py && .venv-docs/bin/python docs/site/build.py "$1" --build build
}

# The conformance table; it is replaced only once it is whole.
write_collectives() {
  OMP_NUM_THREADS=1 .venv/bin/python test/conformance/page.py build >build/collectives.md &&
    cp build/collectives.md docs/collectives.md
}
