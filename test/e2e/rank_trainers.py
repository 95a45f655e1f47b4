"""Training steps that people write by hand: forward and backward of a layer on each rank, with functional collectives,
and the same on one device. `bug` makes one known error in what a rank does."""

import torch
import torch.distributed._functional_collectives as funcol


def to_ranks(group, bug):
    """Megatron's f: the same on all ranks, and the sum of their gradients."""

    class ToRanks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g.clone() if bug == "gradient not reduced" else funcol.all_reduce(g, "sum", group)

    return ToRanks.apply


def from_ranks(group, bug):
    """Megatron's g: the sum over ranks, and the same gradient on all."""

    class FromRanks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kind = "avg" if bug == "averaged" else "sum"
            y = funcol.all_reduce(x, kind, group)
            return funcol.all_reduce(y, "sum", group) if bug == "reduced twice" else y

        @staticmethod
        def backward(ctx, g):
            return funcol.all_reduce(g, "sum", group) if bug == "gradient reduced twice" else g.clone()

    return FromRanks.apply


def gather_rows(group, bug):
    """Sequence parallelism: gathered rows, whose gradient is summed and scattered."""

    class GatherRows(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return funcol.all_gather_tensor(x, 0, group)

        @staticmethod
        def backward(ctx, g):
            return funcol.reduce_scatter_tensor(g, "avg" if bug == "gradient averaged" else "sum", 0, group)

    return GatherRows.apply


def scatter_rows(group, bug):
    class ScatterRows(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = funcol.reduce_scatter_tensor(x, "avg" if bug == "averaged" else "sum", 0, group)
            return funcol.all_reduce(y, "sum", group) if bug == "reduced twice" else y

        @staticmethod
        def backward(ctx, g):
            return funcol.all_gather_tensor(g, 0, group)

    return ScatterRows.apply


def identity(x):
    return x


def vocabulary_log_softmax(group, bug):
    """The logarithm of a softmax of which each rank has some classes."""

    class LogSoftmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            largest = x.amax(1, keepdim=True)
            if bug != "maximum of the rank":
                largest = funcol.all_reduce(largest, "max", group)
            shifted = x - largest
            total = shifted.exp().sum(1, keepdim=True)
            if bug != "sum of the rank":
                total = funcol.all_reduce(total, "avg" if bug == "average of sums" else "sum", group)
            y = shifted - total.log()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            total = g.sum(1, keepdim=True)
            if bug != "gradient of the rank":
                total = funcol.all_reduce(total, "sum", group)
            return g - ctx.saved_tensors[0].exp() * total

    return LogSoftmax.apply


def exchange(group, bug):
    """Parts of dimension 0 go to the ranks, and those of the gradient back."""

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return funcol.all_to_all_single(x, None, None, group)

        @staticmethod
        def backward(ctx, g):
            return g.clone() if bug == "gradient not sent back" else funcol.all_to_all_single(g, None, None, group)

    return Exchange.apply


def with_gradients(loss, *weights):
    return (loss, *torch.autograd.grad(loss, weights))


def mlp(x, up, down, enter=identity, leave=identity, bug=None):
    """Two layers, the second one's rows cut: `enter` and `leave` are what ranks do around them."""
    h = enter(x) @ up
    if bug == "function after the sum":
        return torch.tanh(leave(h @ down))
    return leave(torch.nn.functional.gelu(h) @ down)


def tensor_parallel(x, up, down, group=None, ranks=1, bug=None):
    """The loss is a mean over all elements, which each rank has."""
    enter, leave = (to_ranks(group, bug), from_ranks(group, bug)) if group else (identity, identity)
    loss = mlp(x, up, down, enter, leave, bug).square().mean()
    loss = loss / ranks if bug == "divided by the ranks" else loss
    return with_gradients(loss, x, up, down)


def sequence_parallel(x, up, down, group=None, ranks=1, bug=None):
    """Each rank has some rows: their loss is a term of the sum, by the number of all."""
    rows = x.shape[0] * ranks
    enter, leave = (gather_rows(group, bug), scatter_rows(group, bug)) if group else (identity, identity)
    y = mlp(x, up, down, enter, leave, bug)
    count = y.shape[0] * y.shape[1] if bug == "own count" else rows * y.shape[1]
    count = count * ranks if bug == "divided by the ranks" else count
    return with_gradients(y.square().sum() / count, x, up, down)


def sharded_data(x, up, down, group=None, ranks=1, bug=None):
    """ZeRO-3: weights are gathered for their use, and gradients are summed and scattered."""
    if group is None:
        return with_gradients(mlp(x, up, down).square().mean(), up, down)
    whole_up, whole_down = (
        funcol.wait_tensor(funcol.all_gather_tensor(w.detach(), 0, group)).requires_grad_() for w in (up, down)
    )
    loss = mlp(x, whole_up, whole_down, bug=bug).square().mean()
    first, second = torch.autograd.grad(loss, (whole_up, whole_down))
    if bug == "another gradient":
        second = first.t().contiguous()
    if bug == "divided by the ranks":
        second = second / ranks
    kind = "sum" if bug == "not divided" else "max" if bug == "largest gradient" else "avg"
    first = funcol.reduce_scatter_tensor(first, kind, 0, group)
    second = funcol.reduce_scatter_tensor(second, "avg", 0, group)
    if bug != "loss of the rank":
        loss = funcol.all_reduce(loss.detach(), "avg", group)
    return loss, first, second


def megatron(x, up, down, head, targets, group=None, ranks=1, rank=0, bug=None):
    """Tensor and sequence parallelism, and a loss over classes of which each rank has some."""
    enter, leave = (gather_rows(group, None), scatter_rows(group, bug)) if group else (identity, identity)
    y = x + mlp(x, up, down, enter, leave)
    logits = (gather_rows(group, bug)(y) if group else y) @ head.t()
    if group is None:
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / targets.shape[0]
        return with_gradients(loss, x, up, down, head)
    rows = head.shape[0]
    first = rows * (rank + 1 if bug == "rows of the next rank" else rank)
    own = targets - first
    own = own.masked_fill((own < 0) | (own >= rows), -100)
    scores = vocabulary_log_softmax(group, bug)(logits)
    loss = torch.nn.functional.nll_loss(scores, own, reduction="sum") / targets.shape[0]
    return with_gradients(loss, x, up, down, head)


def context_parallel(x, w, group=None, ranks=1, rank=0, bug=None):
    """Attention: each rank has some rows, and for the scores one of the heads."""
    rows, width = x.shape
    heads = 8
    h = (x @ w).view(rows, heads, width // heads).permute(1, 0, 2)
    if group:
        # Of all heads some rows; of one head all rows.
        h = exchange(group, bug)(h.contiguous()).view(1, rows * ranks, width // heads)
    scale = (width if bug == "scaled by the width" else width // heads) ** -0.5
    scores = torch.bmm(h, h.transpose(1, 2)) * scale
    dim = 1 if bug == "softmax over queries" else 2
    y = torch.bmm(torch.softmax(scores, dim), h)
    if group:
        y = exchange(group, None)(y.reshape(heads, rows, width // heads))
    y = y.reshape(heads, rows, width // heads).permute(1, 0, 2).reshape(rows, width)
    count = x.shape[0] * x.shape[1] * (1 if bug == "own count" else ranks)
    loss, d_x, d_w = with_gradients(y.square().sum() / count, x, w)
    if group and bug != "gradient not reduced":
        d_w = funcol.all_reduce(d_w, "avg" if bug == "averaged" else "sum", group)
    return loss, d_x, d_w


# Shapes of x, up and down on one device, how they lie, how the results lie, and errors.
TRAINERS = {
    "tensor parallel": (
        tensor_parallel, [(6, 8), (8, 16), (16, 8)], [{}, {"tp": 1}, {"tp": 0}], [{}, {}, {"tp": 1}, {"tp": 0}],
        ["gradient not reduced", "averaged", "reduced twice", "gradient reduced twice", "divided by the ranks",
         "function after the sum"],
    ),
    "sequence parallel": (
        sequence_parallel, [(16, 8), (8, 16), (16, 8)], [{"tp": 0}, {"tp": 1}, {"tp": 0}],
        [{"tp": "P"}, {"tp": 0}, {"tp": 1}, {"tp": 0}],
        ["averaged", "reduced twice", "gradient averaged", "own count", "divided by the ranks",
         "function after the sum"],
    ),
    "sharded data": (
        sharded_data, [(16, 8), (8, 16), (16, 8)], [{"tp": 0}, {"tp": 0}, {"tp": 0}], [{}, {"tp": 0}, {"tp": 0}],
        ["not divided", "another gradient", "divided by the ranks", "largest gradient", "loss of the rank",
         "function after the sum"],
    ),
    "megatron": (
        megatron, [(16, 8), (8, 16), (16, 8), (24, 8), (16,)],
        [{"tp": 0}, {"tp": 1}, {"tp": 0}, {"tp": 0}, {}], [{"tp": "P"}, {"tp": 0}, {"tp": 1}, {"tp": 0}, {"tp": 0}],
        ["averaged", "gradient averaged", "rows of the next rank", "maximum of the rank", "sum of the rank",
         "average of sums", "gradient of the rank"],
    ),
    "context parallel": (
        context_parallel, [(16, 32), (32, 32)], [{"tp": 0}, {}], [{"tp": "P"}, {"tp": 0}, {}],
        ["gradient not sent back", "scaled by the width", "softmax over queries", "own count",
         "gradient not reduced", "averaged"],
    ),
}  # fmt: skip
NAMES = ["x", "up", "down", "head", "targets"]
OF_RANKS = ("megatron", "context parallel")  # whose step takes the number of the rank
