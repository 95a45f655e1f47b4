"""Operators of libraries with several results, lists of tensors, optional arguments, changed arguments and gradients in C++."""

import re

import cleave_run  # noqa: F401
import cleave
import pytest
import torch
from cleave import DataParallel, Plan, testing
from combinations_cover import covered
from safetensors.torch import save_file
from test_operator_libraries import compiled, passed, registered  # noqa: F401
from torch import nn
from torch.distributed.tensor import Partial, Shard

SOURCE = """
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;
using Tensors = std::vector<Tensor>;

static std::tuple<Tensor, Tensor> pair(const Tensor &x, const Tensor &y, double scale) {
  return {x.mul(scale).add(y), x.gt(y)};
}
static std::tuple<Tensor, Tensor> pairBackward(const Tensor &grad, double scale) {
  return {grad.mul(scale), grad.clone()};
}
static auto callPair() {
  return c10::Dispatcher::singleton().findSchemaOrThrow("cleave_more::pair", "").typed<decltype(pair)>();
}
struct Pair : torch::autograd::Function<Pair> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext *context, const Tensor &x,
                                                const Tensor &y, double scale) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->saved_data["scale"] = scale;
    auto [sum, larger] = callPair().call(x, y, scale);
    context->mark_non_differentiable({larger});
    return {sum, larger};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 torch::autograd::variable_list grads) {
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow("cleave_more::pair_backward", "");
    auto [x, y] = op.typed<decltype(pairBackward)>().call(grads[0], context->saved_data["scale"].toDouble());
    return {x, y, Tensor()};
  }
};
static std::tuple<Tensor, Tensor> pairWithGradient(const Tensor &x, const Tensor &y, double scale) {
  auto found = Pair::apply(x, y, scale);
  return {found[0], found[1]};
}

static Tensor options(const Tensor &x, const std::optional<Tensor> &weight, at::OptionalIntArrayRef dims,
                      std::optional<double> eps, bool flip, c10::string_view mode, std::optional<at::ScalarType> dtype,
                      const at::Scalar &alpha, int64_t times) {
  Tensor found = x.mul(alpha).mul(times);
  if (weight)
    found = found.mul(*weight);
  if (dims)
    found = found.sum(*dims, /*keepdim=*/true).expand_as(found).contiguous();
  if (eps)
    found = found.add(*eps);
  if (flip)
    found = found.neg();
  if (mode == "squared")
    found = found.mul(found);
  return dtype ? found.to(*dtype) : found;
}

static Tensors blend(at::TensorList xs, at::ArrayRef<double> weights) {
  Tensors found;
  for (size_t i = 0; i < xs.size(); ++i)
    found.push_back(xs[i].mul(weights[i]).add(xs[(i + 1) % xs.size()]));
  return found;
}
static Tensor total(const c10::List<std::optional<Tensor>> &xs) {
  Tensor found;
  for (size_t i = 0; i < xs.size(); ++i)
    if (std::optional<Tensor> x = xs.get(i))
      found = found.defined() ? found.add(*x) : x->clone();
  return found;
}
static Tensor &addInto(Tensor &x, const Tensor &y) { return x.add_(y); }
static void addTo(Tensor x, const Tensor &y) { x.add_(y); }
static Tensor half(const Tensor &x) { return x.slice(0, 0, x.size(0) / 2); }
static int64_t count(const Tensor &x) { return x.size(0); }

TORCH_LIBRARY(cleave_more, m) {
  m.def("pair(Tensor x, Tensor y, *, float scale=2.0) -> (Tensor sum, Tensor larger)");
  m.def("pair_backward(Tensor grad, float scale) -> (Tensor, Tensor)");
  m.def("options(Tensor x, Tensor? weight=None, int[]? dims=None, float? eps=None, bool flip=False, str mode='plain', "
        "ScalarType? dtype=None, Scalar alpha=1, int times=1) -> Tensor");
  m.def("blend(Tensor[] xs, float[] weights) -> Tensor[]");
  m.def("total(Tensor?[] xs) -> Tensor");
  m.def("add_into_(Tensor(a!) x, Tensor y) -> Tensor(a!)");
  m.def("add_to(Tensor(a!) x, Tensor y) -> ()");
  m.def("half(Tensor(a) x) -> Tensor(a)");
  m.def("count(Tensor x) -> int");
}
static void implement(torch::Library &m) {
  m.impl("pair", &pair);
  m.impl("pair_backward", &pairBackward);
  m.impl("options", &options);
  m.impl("blend", &blend);
  m.impl("total", &total);
  m.impl("add_into_", &addInto);
  m.impl("add_to", &addTo);
  m.impl("half", &half);
  m.impl("count", &count);
}
TORCH_LIBRARY_IMPL(cleave_more, CPU, m) { implement(m); }
TORCH_LIBRARY_IMPL(cleave_more, Meta, m) { implement(m); }
TORCH_LIBRARY_IMPL(cleave_more, Autograd, m) { m.impl("pair", &pairWithGradient); }
"""


@pytest.fixture(scope="module")
def library(build_dir, tmp_path_factory):
    path = compiled(build_dir, tmp_path_factory.mktemp("more"), "more", SOURCE)
    torch.ops.load_library(path)
    return path


def more():
    return torch.ops.cleave_more


def pair(x, y):
    found, larger = more().pair(x, y, scale=0.5)
    return torch.where(larger, found, y)


def without_gradient(function):
    """Of what has none: the number that it gives multiplies."""

    def compute(x, y):
        with torch.no_grad():
            found = function(x.detach(), y.detach())
        return x * found

    return compute


CASES = {
    "two results": pair,
    "one of two results": lambda x, y: more().pair(x, y)[0],
    "defaults": without_gradient(lambda x, y: more().options(x)),
    "all options": without_gradient(
        lambda x, y: more().options(x, y[0], [1], 1e-3, True, "squared", torch.float32, 1.5, 3).to(x.dtype)
    ),
    "options by name": without_gradient(lambda x, y: more().options(x, eps=0.25, alpha=2, mode="squared")),
    "an option that is nothing": without_gradient(lambda x, y: more().options(x, None, None, flip=True)),
    "flags as numbers": without_gradient(lambda x, y: more().options(x, alpha=True)),
    "lists of tensors": without_gradient(lambda x, y: sum(more().blend([x, y, x * 2], [0.5, 2.0, 1.0]))),
    "the middle of a list": without_gradient(lambda x, y: more().blend([x, y, x * 2], [0.5, 2.0, 1.0])[1]),
    "a list with nothing in it": without_gradient(lambda x, y: more().total([x, None, y])),
}


class Applied(nn.Module):
    def __init__(self, function, dtype=torch.float32):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8, dtype=dtype), nn.Linear(6, 8, dtype=dtype)
        self.function = function

    def forward(self, x):
        return self.function(self.first(x), self.second(x))


def loss(y):
    return y.float().square().mean()


def spec_of(function, dtype=torch.float32):
    torch.manual_seed(0)
    return cleave.ExportSpec(Applied(function, dtype), (torch.randn(4, 6, dtype=dtype),), loss=loss, name="applied")


@covered(
    {
        "name": list(CASES),
        "passes": {"exported": (), "lowered": ("--lower-to-exec=target=cpu",)},
        "dtype": [torch.float32, torch.bfloat16],
    }
)  # fmt: skip
def test_computes_what_eager_mode_does(name, passes, dtype, library, build_dir, cleave_run, tmp_path):
    spec = spec_of(CASES[name], dtype)
    path = cleave.export_spec(spec, tmp_path)
    assert 'aten.call "cleave_more::' in path.read_text()
    program = passed(build_dir, path, "passed", *passes)[0] if passes else path
    found = cleave_run.evaluate(program, testing.example_inputs(spec), tmp_path, "--load-library", library)
    expected = testing.evaluate(spec)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key


def changed_in_place(x, y):
    more().add_into_(x, y)
    return x


def changed_without_result(x, y):
    found = x.detach().clone()
    more().add_to(found, y.detach())
    return x * found


REFUSED = {
    "changed in place": (changed_in_place, "cleave_more::add_into_", "changes its argument"),
    "changed without a result": (changed_without_result, "cleave_more::add_to", "changes its argument"),
    "view": (without_gradient(lambda x, y: more().half(torch.cat([x, y]))), "cleave_more::half", "view"),
    "number": (without_gradient(lambda x, y: more().count(x)), "cleave_more::count", "number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_program_can_call_is_refused(name, library, tmp_path):
    function, operator, reason = REFUSED[name]
    with pytest.raises(cleave.ExportError) as error:
        cleave.export_spec(spec_of(function), tmp_path)
    message = str(error.value)
    assert operator in message and reason in message and "test_operator_signatures.py:" in message
    assert len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rest", [lambda x, y: 0, lambda x, y: x + y], ids=["alone", "beside others"])
def test_a_gradient_that_nobody_wrote_is_refused(rest, library, tmp_path):
    """Eager mode differentiates what the kernel calls, and warns."""
    with pytest.raises(cleave.ExportError) as error:
        cleave.export_spec(spec_of(lambda x, y: rest(x, y) + more().options(x)), tmp_path)
    expected = (
        r"cannot export 'cleave_more::options' at test_operator_signatures.py:\d+: found an operator of a library without a "
        "gradient; expected one with a kernel for Autograd or torch.library.register_autograd, or a call under torch.no_grad()"
    )
    assert re.fullmatch(expected.replace("()", r"\(\)"), str(error.value)), str(error.value)


def shard_all(registered):  # noqa: F811
    """All dimensions of all tensors together."""

    def by_dimension(tensors, results, ndim):
        return [([Shard(d)] * results, [Shard(d)] * tensors) for d in range(ndim)]

    registered(more().pair.default)(lambda x, y, scale=2.0: by_dimension(2, 2, len(x.shape)))
    registered(more().pair_backward.default)(
        lambda grad, scale: [*by_dimension(1, 2, len(grad.shape)), ([Partial()] * 2, [Partial()])]
    )
    registered(more().blend.default)(lambda xs, weights: by_dimension(len(xs), len(xs), len(xs[0].shape)))
    registered(more().total.default)(lambda xs: by_dimension(sum(x is not None for x in xs), 1, len(xs[0].shape)))
    registered(more().options.default)(
        lambda x, *options: [([Shard(0)], [Shard(0), *[None] * len(options)])]
    )


SHARDED = ["two results", "lists of tensors", "a list with nothing in it", "options by name"]


@pytest.mark.parametrize("name", SHARDED)
def test_registered_shardings(name, library, registered, build_dir, cleave_run, tmp_path):  # noqa: F811
    shard_all(registered)
    spec = spec_of(CASES[name])
    path = cleave.export_spec(spec, tmp_path)
    calls = [line for line in path.read_text().splitlines() if "cleave_more::" in line]
    assert calls and all(" sharded " in call for call in calls), calls
    save_file(testing.example_inputs(spec), tmp_path / "inputs.safetensors")
    Plan({"dp": 2}, {"": DataParallel("dp")}).write(tmp_path / "plan.json")
    program, remarks = passed(
        build_dir, path, "dp", f"--annotate-placements=plan={tmp_path / 'plan.json'}", "--propagate-placements", "--partition",
        "--check-spmd-types", "--lower-to-exec=target=cpu",
    )  # fmt: skip
    assert "replicated" not in remarks, remarks
    assert all("tensor<2x8xf32" in line for line in program.read_text().splitlines() if '"cleave_more::' in line)
    cleave_run.succeed(
        program, "--load-library", library, "--inputs", tmp_path / "inputs.safetensors", "--against", path, "--ranks", 2,
        "--tolerance", 1e-6,
    )  # fmt: skip
