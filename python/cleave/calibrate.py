"""Fits the constants of devices and links to measured runs, by least squares within their bounds.

    python -m cleave.calibrate [ROWS.csv] [--kernels KERNELS.csv] [--plans plans.json] [--devices examples/devices]
                               [--leave-out SOURCE,...]

ROWS.csv has the columns that `cleave-sim --rows` reads, and step_time_s. KERNELS.csv is a profile of single kernels:
the columns that `cleave-sim --kernels` reads, and seconds. Each file of a device or link gets the constants that fit
best, and each file of a cluster its typical error; the same rows always give the same bytes.
Constants that the rows do not decide stay close to where the file says that a fit starts, or to those of the
device's relative. Prints each constant with an interval and the row that moves it most.

Residuals are logarithms of predicted over measured time, so that a factor of two counts the same in either
direction and at any scale. Large ones count less (they are often another software than assumed), and a family's
rows, or a device's kernels, count together as the square root of their number.
"""

import argparse
import collections
import csv
import hashlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy

STEP = 0.02  # of a constant's scale, for differences
SCALE = 0.08  # residuals beyond it count less
# Residuals of a constant that is one unit of its scale off its start, which is what is known without rows, and off
# its relative's, which is another device.
START_PRIOR, RELATIVE_PRIOR = 0.03, 0.01


# What `cleave-sim --kernels` reads.
KERNEL_COLUMNS = ["device", "kind", "batch", "m", "n", "k", "bits", "bytes"]
# What predictions do not read.
IGNORED = {"id", "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "peak_memory_gib", "derived", "params_b"}


class CalibrationError(Exception):
    """What the caller gave cannot be fitted to."""


def is_positive(text):
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def read_table(path, expected):
    """Header and rows of a table as dictionaries."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(line for line in file if not line.startswith("#"))
            rows = list(reader)
    except OSError as error:
        raise CalibrationError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise CalibrationError(f"{path}: expected comma-separated values, found something else: {error}") from None
    for column in expected:
        if not reader.fieldnames or column not in reader.fieldnames:
            raise CalibrationError(f'{path}: expected a column "{column}", found none')
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise CalibrationError(f"{path}: row {number}: expected {len(reader.fieldnames)} fields as in the header")
    return reader.fieldnames, rows


def read_rows(path):
    """Measured runs: header and rows as dictionaries."""
    header, rows = read_table(path, ("source", "step_time_s", "gpu_type", "gpus_per_node"))
    for number, row in enumerate(rows, 1):
        for column in ("step_time_s", "gpus_per_node"):
            if row[column] and not is_positive(row[column]):
                raise CalibrationError(f"{path}: row {number}: {column}: expected a positive number, or none, found "
                                       f"{row[column]!r}")
    return header, rows


def read_kernels(path, files):
    """A profile of kernels as dictionaries."""
    _, kernels = read_table(path, ("device", "kind", "seconds"))
    for number, kernel in enumerate(kernels, 1):
        if kernel["device"] not in files.named:
            raise CalibrationError(f"{path}: kernel {number}: device: expected one of {files.folder}, found "
                                   f"{kernel['device']!r}")
        if not is_positive(kernel["seconds"]):
            raise CalibrationError(f"{path}: kernel {number}: seconds: expected a positive number, found "
                                   f"{kernel['seconds']!r}")
        for column in KERNEL_COLUMNS:
            kernel.setdefault(column, "")
    return kernels


def find_tool():
    """cleave-sim on the path."""
    tool = shutil.which("cleave-sim")
    if not tool:
        raise CalibrationError("expected cleave-sim on the path, found none")
    return tool


def run_tool(tool, table, devices, options=(), kind="rows"):
    """The lines of the table with predictions; `table` is a file, `options` are further ones of cleave-sim."""
    command = [str(tool), f"--{kind}={table}", f"--devices={devices}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CalibrationError(done.stderr.strip())
    return [line for line in done.stdout.splitlines() if not line.startswith("#")]


def check_devices(tool, devices):
    """Refuses, with cleave-sim's message, a folder that it cannot read: a table without rows asks for nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        table = pathlib.Path(scratch) / "kernels.csv"
        table.write_text(",".join(KERNEL_COLUMNS) + "\n", encoding="utf-8")
        run_tool(tool, table, devices, kind="kernels")


def predict(tool, table, devices, options=()):
    """Rows with predictions, as dictionaries."""
    return list(csv.DictReader(run_tool(tool, table, devices, options)))


class Constant:
    """One constant of a file, on a scale without bounds."""

    def __init__(self, file, owner, name, fields):
        self.file, self.owner, self.name = file, owner, name
        self.lower, self.upper = fields["lower"], fields["upper"]
        self.start = self.position(fields["start"])
        self.has_relative = fields.get("relative", True)

    def position(self, value):
        part = (value - self.lower) / (self.upper - self.lower)
        part = min(max(part, 1e-3), 1 - 1e-3)
        return math.log(part / (1 - part))

    def value(self, position):
        position = min(max(position, -8.0), 8.0)
        return self.lower + (self.upper - self.lower) / (1 + math.exp(-position))


class Files:
    """A folder of devices, links and clusters."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.items = {}
        for path in sorted(self.folder.glob("*.json")):
            item = json.loads(path.read_text(encoding="utf-8"))
            if any(isinstance(item.get(kind), str) for kind in ("device", "link", "cluster")):
                self.items[path.name] = item
        self.constants = []
        for file, item in self.items.items():
            for name, fields in item.get("constants", {}).items():
                if isinstance(fields, (int, float)):  # not to be fitted
                    continue
                try:
                    self.constants.append(Constant(file, self.name(item), name, fields))
                except (KeyError, TypeError, ZeroDivisionError):
                    where = f"{self.folder / file}: constants: {name}"
                    raise CalibrationError(f'{where}: expected numbers "start", "lower" and, above it, "upper"') from None
        if not self.constants:
            raise CalibrationError(f"{folder}: expected files with constants, found none")
        self.index = {(c.owner, c.name): i for i, c in enumerate(self.constants)}
        self.named = {self.name(item): item for item in self.items.values() if "cluster" not in item}

    @staticmethod
    def name(item):
        return item.get("cluster") or item.get("device") or item.get("link")

    def owner(self, name, constant):
        """The index of the constant that counts for a device or link: its own, or a relative's."""
        while name and (name, constant) not in self.index:
            if constant in self.named.get(name, {}).get("constants", {}):
                return None  # a plain number, which is not fitted
            name = self.named.get(name, {}).get("relative")
        return self.index.get((name, constant))

    def relative(self, constant):
        """The index of the same constant of the relative, if there is one that is like it."""
        parent = constant.has_relative and self.named[constant.owner].get("relative")
        return self.owner(parent, constant.name) if parent else None

    def cluster(self, row):
        """The cluster of a row, which is what cleave-sim finds."""
        for item in self.items.values():
            if "cluster" in item and row["gpu_type"] in item["types"] and \
                    float(row["gpus_per_node"] or 0) in (0, item["devices_per_node"]):
                return item
        return None

    def digest(self):
        """Of the values of all constants: two folders have the same where predictions do not differ for them."""
        values = sorted((c.owner, c.name, self.items[c.file]["constants"][c.name]["value"]) for c in self.constants)
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]

    def replace(self, folder, positions, errors):
        """Writes all files, or leaves those that are there alone."""
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            self.write(scratch, positions, errors)
            for file in self.items:
                os.replace(pathlib.Path(scratch) / file, pathlib.Path(folder) / file)

    def write(self, folder, positions, errors=None):
        """The files with constants at these positions."""
        items = json.loads(json.dumps(self.items))
        for constant, position in zip(self.constants, positions):
            items[constant.file]["constants"][constant.name]["value"] = float(f"{constant.value(position):.5g}")
        for file, item in items.items():
            if errors and "cluster" in item and item["cluster"] in errors:
                item["error"] = float(f"{errors[item['cluster']]:.3g}")
            (pathlib.Path(folder) / file).write_text(json.dumps(item, indent=1) + "\n", encoding="utf-8")


class Fit:
    """Constants fitted to rows, and to a profile of kernels if there is one."""

    def __init__(self, files, header, rows, tool, options=(), positions=None, kernels=()):
        self.files, self.tool, self.options = files, tool, options
        self.header = header
        self.rows = [row for row in rows if row["step_time_s"] and files.cluster(row)]
        self.kernels = list(kernels)
        # What cannot be predicted has no residual.
        self.positions = numpy.array([c.start for c in files.constants] if positions is None else positions)
        with tempfile.TemporaryDirectory() as scratch:
            self.scratch = pathlib.Path(scratch)
            self.write_tables()
            times = self.run(self.positions)
            self.rows, self.kernels = ([row for row, time in zip(table, times[at:]) if time]
                                       for table, at in ((self.rows, 0), (self.kernels, len(self.rows))))
            if not self.rows and not self.kernels:
                raise CalibrationError("expected rows with step_time_s that can be predicted, found none")
            self.write_tables()
            self.measured = numpy.array([math.log(float(row["step_time_s"])) for row in self.rows]
                                        + [math.log(float(kernel["seconds"])) for kernel in self.kernels])
            self.weights = numpy.array(weigh(self.rows) + weigh_kernels(self.kernels))
            self.columns = self.make_columns()
            self.solve()

    def write_tables(self):
        """What is predicted, without what was measured."""
        for name, names, table in (("rows", [name for name in self.header if name not in IGNORED], self.rows),
                                   ("kernels", KERNEL_COLUMNS, self.kernels)):
            with open(self.scratch / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, names, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(table)

    def run(self, positions):
        """Predicted times, as text, of rows and then of kernels."""
        self.files.write(self.scratch, positions)
        times = []
        for kind, column, table, options in (("rows", "predicted_step_time_s", self.rows, self.options),
                                             ("kernels", "predicted_seconds", self.kernels, ())):
            if table:
                header, *rows = csv.reader(
                    run_tool(self.tool, self.scratch / f"{kind}.csv", self.scratch, options, kind))
                at = header.index(column)
                times += [row[at] for row in rows]
        return times

    def residuals(self, positions):
        return numpy.log(numpy.array(self.run(positions), dtype=float)) - self.measured

    def make_columns(self):
        """Constants that no row has two of can be moved together: by name, and level for links. Of each such group,
        the constant that each row has (-1: none)."""
        columns = collections.defaultdict(lambda: [-1] * len(self.measured))
        parts = []
        for row in self.rows:
            cluster = self.files.cluster(row)
            parts.append([(cluster["of"], 0)] + [(level["link"], 1 + i) for i, level in enumerate(cluster["levels"])])
        parts += [[(kernel["device"], 0)] for kernel in self.kernels]
        for at, names in enumerate(parts):
            for name, level in names:
                for constant in {c.name for c in self.files.constants}:
                    owner = self.files.owner(name, constant)
                    if owner is not None:
                        columns[constant, level][at] = owner
        return [numpy.array(column) for _, column in sorted(columns.items())]

    def jacobian(self, positions, base):
        result = numpy.zeros((len(self.measured), len(positions)))
        for column in self.columns:
            moved = positions.copy()
            owners = [owner for owner in set(column.tolist()) if owner >= 0]
            moved[owners] += STEP
            change = (self.residuals(moved) - base) / STEP
            has = numpy.nonzero(column >= 0)[0]
            result[has, column[has]] += change[has]
        return result

    def prior(self, positions):
        """How far constants are from where they start, or from their relative's; and its derivative."""
        count = len(positions)
        values, slopes = numpy.zeros(count), numpy.eye(count)
        scales = numpy.full(count, START_PRIOR)
        for i, constant in enumerate(self.files.constants):
            parent = self.files.relative(constant)
            if parent is None:
                values[i] = positions[i] - constant.start
                continue
            # The relative's value, on the scale of these bounds, which may be others.
            relative = self.files.constants[parent]
            there, beyond = (constant.position(relative.value(positions[parent] + step)) for step in (0, STEP))
            values[i] = positions[i] - there
            slopes[i, parent] = (there - beyond) / STEP
            scales[i] = RELATIVE_PRIOR
        return scales * values, scales[:, None] * slopes

    def cost(self, residuals, positions):
        prior, _ = self.prior(positions)
        part = self.weights * SCALE * SCALE * (numpy.sqrt(1 + (residuals / SCALE) ** 2) - 1)
        return 2 * part.sum() + (prior**2).sum()

    def solve(self, rounds=60):
        """Levenberg-Marquardt, with weights that fall where residuals are large. Ends where two rounds in a row gain
        less than a ten-thousandth each: a single one may be a step that the bounds or the damping cut short."""
        damping = 1e-2
        idle = 0
        residuals = self.residuals(self.positions)
        cost = self.cost(residuals, self.positions)
        for _ in range(rounds):
            slopes = self.jacobian(self.positions, residuals)
            weights = self.weights / numpy.sqrt(1 + (residuals / SCALE) ** 2)
            prior, prior_slopes = self.prior(self.positions)
            matrix = slopes.T @ (weights[:, None] * slopes) + prior_slopes.T @ prior_slopes
            gradient = slopes.T @ (weights * residuals) + prior_slopes.T @ prior
            self.matrix, self.slopes = matrix, slopes
            better = False
            for _ in range(6):
                step = numpy.linalg.solve(matrix + damping * numpy.diag(numpy.diag(matrix) + 1e-9), -gradient)
                trial = numpy.clip(self.positions + numpy.clip(step, -1.5, 1.5), -7, 7)
                trial_residuals = self.residuals(trial)
                trial_cost = self.cost(trial_residuals, trial)
                if trial_cost < cost:
                    better = True
                    break
                damping *= 6
            if not better:
                break
            gain = (cost - trial_cost) / cost
            self.positions, residuals, cost = trial, trial_residuals, trial_cost
            damping = max(damping / 4, 1e-6)
            idle = idle + 1 if gain < 1e-4 else 0
            if idle == 2:
                break
        self.final = residuals

    def errors(self):
        """The 68th percentile of relative errors, by cluster."""
        by = collections.defaultdict(list)
        for row, residual in zip(self.rows, self.final):
            by[self.files.cluster(row)["cluster"]].append(abs(math.expm1(residual)))
        return {name: float(numpy.quantile(values, 0.68)) for name, values in by.items()}

    def report(self):
        """A line for each constant: value, interval of two standard deviations, the row that moves it most."""
        spread = numpy.median(numpy.abs(self.final)) * 1.48
        covariance = numpy.linalg.pinv(self.matrix) * spread**2
        lines = []
        for i, constant in enumerate(self.files.constants):
            deviation = 2 * math.sqrt(max(covariance[i, i], 0))
            low, high = (constant.value(self.positions[i] + sign * deviation) for sign in (-1, 1))
            moves = numpy.abs(self.slopes[:, i]) * self.weights
            names = [row.get("id", "") for row in self.rows] + [describe(kernel) for kernel in self.kernels]
            decides = names[int(moves.argmax())] if moves.max() > 1e-6 else "no row: as it starts"
            lines.append(f"{constant.owner:16} {constant.name:26} {constant.value(self.positions[i]):<12.4g} "
                         f"{low:.3g} to {high:.3g}; {decides}")
        return lines


def family(row):
    """Rows of one publication count together."""
    source = row["source"]
    for name in ("vtrain_single", "vtrain_multi", "megatron_bridge", "megatron_sc21", "korthikanti22", "torchtitan",
                 "mlperf", "aceso", "mist"):
        if source.startswith(name):
            return name + ("_moe" if name == "megatron_bridge" and row.get("arch") != "dense" else "")
    return source


def weigh(rows):
    """How much each row counts: a family's rows together as the square root of their number."""
    sizes = collections.Counter(family(row) for row in rows)
    return [sizes[family(row)] ** -0.5 for row in rows]


def weigh_kernels(kernels):
    """The same of a profile: a device's kernels together as the square root of their number."""
    sizes = collections.Counter(kernel["device"] for kernel in kernels)
    return [sizes[kernel["device"]] ** -0.5 for kernel in kernels]


def describe(kernel):
    """A kernel in a line of the report."""
    if kernel["kind"] == "product":
        return f"product {kernel['m']} x {kernel['n']} x {kernel['k']}"
    return f"{kernel['bytes']} bytes"


def newest(rows):
    """Of runs that differ in the software's release only, the newest (`container` in `extra`)."""
    def release(row):
        extra = dict(part.split("=", 1) for part in row.get("extra", "").split(";") if "=" in part)
        return [int(part) for part in extra["container"].split(".")] if "container" in extra else None
    best = {}
    for row in rows:
        if release(row):
            key = tuple(value for name, value in row.items() if name not in IGNORED | {"extra"})
            if key not in best or release(row) > release(best[key]):
                best[key] = row
    kept = {id(row) for row in best.values()}
    return [row for row in rows if not release(row) or id(row) in kept]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m cleave.calibrate", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="?", help="a table of measured runs")
    parser.add_argument("--devices", default="examples/devices", help="folder of devices, links and clusters")
    parser.add_argument("--output", help="folder to write them to (default: the same)")
    parser.add_argument("--plans", help="plans by op that rows name")
    parser.add_argument("--defaults", help="what rows leave open, by source (default: cleave-sim's)")
    parser.add_argument("--kernels", help="a table of measured kernels: a profile of devices")
    parser.add_argument("--leave-out", default="", help="sources whose rows do not count, separated by commas")
    options = parser.parse_args(arguments)
    try:
        if not options.rows and not options.kernels:
            raise CalibrationError("expected a table of runs, --kernels, or both")
        header, rows = read_rows(options.rows) if options.rows else ([], [])
        left_out = set(filter(None, options.leave_out.split(",")))
        unknown = left_out - {row["source"] for row in rows}
        if unknown:
            raise CalibrationError(f"--leave-out: {options.rows} has no source {sorted(unknown)[0]!r}")
        tool = find_tool()
        check_devices(tool, options.devices)
        files = Files(options.devices)
        kernels = read_kernels(options.kernels, files) if options.kernels else ()
        output = pathlib.Path(options.output or options.devices)
        output.mkdir(parents=True, exist_ok=True)
        fit = Fit(files, header, newest([row for row in rows if row["source"] not in left_out]), tool,
                  [f"--{name}={getattr(options, name)}" for name in ("plans", "defaults") if getattr(options, name)],
                  kernels=kernels)
        files.replace(output, fit.positions, fit.errors())
    except CalibrationError as error:
        sys.exit(f"cleave.calibrate: error: {error}")
    except OSError as error:
        sys.exit(f"cleave.calibrate: error: {error.filename}: {error.strerror}")
    print("\n".join(fit.report()))


if __name__ == "__main__":
    main()
