"""What all Python tests share: where the build is, the run's seed in the report's header, and a folder for
what one process makes for all."""

import os
import pathlib
import tempfile

import combinations_cover
import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.shared_folder = tempfile.TemporaryDirectory(prefix="cleave-tests-")
        os.environ["CLEAVE_TEST_SHARED"] = config.shared_folder.name


def pytest_unconfigure(config):
    if hasattr(config, "shared_folder"):
        config.shared_folder.cleanup()


def pytest_report_header():
    return f"CLEAVE_TEST_SEED={combinations_cover.seed()}, CLEAVE_TEST_ALL={int(combinations_cover.run_all())}"


@pytest.fixture(scope="session")
def source_dir():
    """The root of the checkout."""
    return SOURCE


@pytest.fixture(scope="session")
def build_dir():
    """The build tree under test (CLEAVE_BUILD, or build/)."""
    build = pathlib.Path(os.environ.get("CLEAVE_BUILD", SOURCE / "build"))
    if not (build / "bin" / "cleave-opt").exists():
        pytest.exit(f"expected a build in {build}, found no bin/cleave-opt: run ./dev build", 2)
    return build
