"""Writes vectors.jsonl: what PyTorch computes, in float64. README.md says how to run it."""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(20260711)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

operations = []
running = []


def draw(shape, mean=0.4, deviation=3.0, exact=True):
    """Not of unit variance. Exact: numbers that float32 holds too, so that they can be given to both."""
    values = mean + deviation * torch.randn(shape)
    if not exact:
        return values
    steps = 2.0 ** (10 if deviation >= 1 else 16)
    return torch.round(values * steps) / steps


def draw_scale(shape, exact=True):
    """Away from 0, of both signs."""
    values = draw(shape, 0.0, 1.0, exact)
    return values + torch.where(values < 0, -0.5, 0.5)


def numbers(tensor):
    return tensor.detach().reshape(-1).tolist()


def gradients(y, dy, *parameters):
    return [None if p is None else numbers(g) for p, g in zip(parameters, torch.autograd.grad(y, parameters, dy))]


def add(op, what, x, options, function, *, parameters=None, exact=True, lengths=None, backward=True, affine=True, **more):
    """function(x, scale, bias) is PyTorch's y. parameters: the shape of scale and bias, where there are any."""
    x = x.clone().requires_grad_()
    scale = bias = None
    given = {}
    if parameters is not None:
        # Gradients exist for a scale of 1 and a bias of 0 too.
        scale = draw_scale(parameters, exact) if affine else torch.ones(parameters)
        bias = draw(parameters, 0.0, 1.0, exact) if affine else torch.zeros(parameters)
        scale.requires_grad_()
        bias.requires_grad_()
        if affine:
            given = {"scale": numbers(scale), "bias": numbers(bias)}
            if op == "rmsNorm":
                del given["bias"]
    y = function(x, scale, bias)
    case = {"op": op, "what": what, "exact": exact, "shape": list(x.shape), "options": options, **given, **more}
    if lengths is not None:
        case["lengths"] = lengths
    case["x"] = numbers(x)
    case["y"] = numbers(y)
    if backward:
        dy = draw(x.shape, -0.2, 1.5, exact)
        case["dy"] = numbers(dy)
        wanted = [x] if scale is None else [x, scale] if op == "rmsNorm" else [x, scale, bias]
        for name, values in zip(["dx", "dScale", "dBias"], gradients(y, dy, *wanted)):
            case[name] = values
    operations.append(case)


# Layer normalization: what it is given, how x is spread, and whether float32 holds x.
for shape, trailing, epsilon, mean, deviation, affine, exact in [
    ([4, 7], 1, 1e-5, 0.4, 3.0, True, True),
    ([4, 7], 1, 1e-5, 0.4, 3.0, False, False),
    ([3, 2, 5], 2, 1e-3, -2.0, 30.0, True, True),
    ([2, 3, 2, 3], 3, 1e-5, 0.0, 0.1, True, False),
    ([3, 33], 1, 1e-5, 1000.0, 1.0, True, True),
    ([2, 3, 17], 1, 0.5, 0.4, 0.1, True, False),
    ([11], 1, 0.0, 0.4, 3.0, False, True),
    ([2, 67], 1, 1e-5, 5.0, 0.1, True, True),
]:
    size = shape[len(shape) - trailing :]
    add(
        "layerNorm",
        f"mean {mean}, deviation {deviation}",
        draw(shape, mean, deviation, exact),
        {"axes": [axis - trailing for axis in range(trailing)], "epsilon": epsilon},
        lambda x, scale, bias: F.layer_norm(x, size, scale, bias, epsilon),
        parameters=size,
        affine=affine,
        exact=exact,
    )


def rms_norm(x, size, scale, epsilon):
    """torch.nn.functional.rms_norm, which came with PyTorch 2.4, by its documentation."""
    axes = tuple(range(-len(size), 0))
    return x / torch.sqrt(torch.mean(x * x, axes, keepdim=True) + epsilon) * scale


for shape, trailing, epsilon, mean, deviation, affine, exact in [
    ([4, 7], 1, 1e-5, 0.4, 3.0, True, True),
    ([3, 2, 5], 2, 1e-3, -2.0, 30.0, True, False),
    ([2, 33], 1, 0.5, 0.0, 0.1, False, True),
    ([2, 3, 19], 1, 1e-5, 3.0, 1.0, True, True),
]:
    size = shape[len(shape) - trailing :]
    add(
        "rmsNorm",
        f"mean {mean}, deviation {deviation}",
        draw(shape, mean, deviation, exact),
        {"axes": [axis - trailing for axis in range(trailing)], "epsilon": epsilon},
        lambda x, scale, bias: rms_norm(x, size, scale, epsilon),
        parameters=size,
        affine=affine,
        exact=exact,
    )

for shape, groups, epsilon, mean, deviation, affine, exact in [
    ([2, 6, 4], 3, 1e-5, 0.4, 3.0, True, True),
    ([2, 4, 2, 3], 2, 1e-3, -20.0, 30.0, True, False),
    ([3, 8], 2, 1e-5, 0.0, 0.1, False, True),
    ([1, 6, 3, 3], 1, 1e-5, 100.0, 1.0, True, True),
    ([2, 4, 5], 4, 1e-5, 0.4, 3.0, True, True),
]:
    add(
        "groupNorm",
        f"mean {mean}, deviation {deviation}",
        draw(shape, mean, deviation, exact),
        {"groups": groups, "epsilon": epsilon},
        lambda x, scale, bias: F.group_norm(x, groups, scale, bias, epsilon),
        parameters=[shape[1]],
        affine=affine,
        exact=exact,
    )

for shape, epsilon, mean, deviation, affine, exact in [
    ([2, 3, 8], 1e-5, 0.4, 3.0, True, True),
    ([2, 3, 3, 4], 1e-3, -20.0, 30.0, True, False),
    ([1, 4, 17], 1e-5, 0.0, 0.1, False, True),
    ([2, 2, 2, 2, 3], 1e-5, 50.0, 1.0, True, True),
]:
    add(
        "instanceNorm",
        f"mean {mean}, deviation {deviation}",
        draw(shape, mean, deviation, exact),
        {"epsilon": epsilon},
        lambda x, scale, bias: F.instance_norm(x, None, None, scale, bias, True, 0.1, epsilon),
        parameters=[shape[1]],
        affine=affine,
        exact=exact,
    )

for shape, epsilon, mean, deviation, affine, exact in [
    ([7, 4], 1e-5, 0.4, 3.0, True, True),
    ([3, 4, 5], 1e-3, -20.0, 30.0, True, False),
    ([2, 3, 3, 3], 1e-5, 0.0, 0.1, True, True),
    ([9, 5], 1e-5, 1000.0, 1.0, False, True),
    ([4, 3, 2, 2, 2], 0.5, 0.4, 3.0, True, True),
    ([37, 2], 1e-5, 0.4, 3.0, True, True),
]:
    channels = shape[1]
    x = draw(shape, mean, deviation, exact)
    add(
        "batchNormTraining",
        f"mean {mean}, deviation {deviation}",
        x,
        {"epsilon": epsilon},
        lambda x, scale, bias: F.batch_norm(x, None, None, scale, bias, True, 0.1, epsilon),
        parameters=[channels],
        affine=affine,
        exact=exact,
    )
    given_mean = draw([channels], mean, deviation, exact)
    given_variance = draw([channels], 0.0, deviation, exact) ** 2 + 0.125
    if exact:
        given_variance = given_variance.float().double()
    add(
        "batchNorm",
        f"mean {mean}, deviation {deviation}",
        draw(shape, mean, deviation, exact),
        {"epsilon": epsilon},
        lambda x, scale, bias: F.batch_norm(x, given_mean, given_variance, scale, bias, False, 0.1, epsilon),
        parameters=[channels],
        affine=affine,
        exact=exact,
        mean=numbers(given_mean),
        variance=numbers(given_variance),
    )

for p in [1, 2, "Infinity"]:
    for shape, axis, epsilon, mean, deviation, exact in [
        ([4, 7], 1, 1e-12, 0.4, 3.0, True),
        ([3, 5, 2], 1, 1e-12, 0.0, 0.1, False),
        ([2, 33], -1, 1e-12, 3.0, 30.0, True),
        # Norms below epsilon: y = x / epsilon.
        ([3, 5], -1, 64.0, 0.0, 0.1, True),
    ]:
        order = float(str(p).replace("Infinity", "inf"))
        add(
            "lpNormalize",
            f"p {p}, mean {mean}, deviation {deviation}",
            draw(shape, mean, deviation, exact),
            {"axes": axis, "p": p, "epsilon": epsilon},
            lambda x, scale, bias: F.normalize(x, order, axis, epsilon),
            exact=exact,
        )

# Odd sizes alone: with an even one PyTorch's window reaches one further to the left, ONNX's to the right.
for shape, size, alpha, beta, k, deviation, exact in [
    ([2, 7, 3], 3, 1e-4, 0.75, 1.0, 30.0, True),
    ([1, 9, 2, 2], 5, 0.25, 0.5, 2.0, 3.0, True),
    ([2, 3, 4], 7, 1.0, 1.25, 0.5, 3.0, False),
    ([1, 5, 6], 1, 2.0, 0.75, 1.0, 0.1, False),
]:
    add(
        "localResponseNorm",
        f"deviation {deviation}",
        draw(shape, 0.4, deviation, exact),
        {"size": size, "alpha": alpha, "beta": beta, "k": k},
        lambda x, scale, bias: F.local_response_norm(x, size, alpha, beta, k),
        exact=exact,
        backward=False,
    )


def fill_padding(x, lengths):
    """Values that would be seen in any statistic."""
    for item, length in enumerate(lengths):
        x[item, length:] = 4096.0
    return x


def pad(x, lengths, normalize):
    """Each item's valid steps alone, and 0 past them."""
    y = torch.zeros_like(x)
    rows = []
    for item, length in enumerate(lengths):
        valid = normalize(x[item, :length], item, length) if length else x[item, :0]
        rows.append(torch.cat([valid, y[item, length:]]))
    return torch.stack(rows)


for lengths, affine in [([5, 2, 0, 3], True), ([1, 5, 4, 5], False)]:
    shape = [4, 5, 3]
    x = fill_padding(draw(shape), lengths)
    add(
        "layerNorm",
        "padded, each step",
        x,
        {"axes": [-1], "epsilon": 1e-5},
        lambda x, scale, bias: pad(x, lengths, lambda v, i, n: F.layer_norm(v, [3], scale, bias, 1e-5)),
        parameters=[3],
        affine=affine,
        lengths=lengths,
    )
    add(
        "layerNorm",
        "padded, over all of an item's steps",
        x,
        {"axes": [1, 2], "epsilon": 1e-5},
        lambda x, scale, bias: pad(x, lengths, lambda v, i, n: F.layer_norm(v, [n, 3], scale[:n], bias[:n], 1e-5)),
        parameters=[5, 3],
        affine=affine,
        lengths=lengths,
    )
    add(
        "rmsNorm",
        "padded, over all of an item's steps",
        x,
        {"axes": [1, 2], "epsilon": 1e-5},
        lambda x, scale, bias: pad(x, lengths, lambda v, i, n: rms_norm(v, [n, 3], scale[:n], 1e-5)),
        parameters=[5, 3],
        affine=affine,
        lengths=lengths,
    )

    def masked_batch_norm(x, scale, bias):
        """PyTorch's batch norm of the valid steps alone, as one batch."""
        valid = torch.cat([x[item, :length] for item, length in enumerate(lengths)])
        pieces = torch.split(F.batch_norm(valid, None, None, scale, bias, True, 0.1, 1e-5), lengths)
        return pad(x, lengths, lambda v, i, n: pieces[i])

    add(
        "batchNormTraining",
        "padded",
        x,
        {"axis": 2, "epsilon": 1e-5},
        masked_batch_norm,
        parameters=[3],
        affine=affine,
        lengths=lengths,
    )


def add_running(what, layer, shapes, mean, deviation, **options):
    """A layer over some batches: the statistics after each one, its gradients' sums, and what it gives afterwards."""
    channels = layer.num_features
    if layer.affine:
        with torch.no_grad():
            layer.weight.copy_(draw_scale([channels]))
            layer.bias.copy_(draw([channels], 0.0, 1.0))
    case = {"layer": "BatchNorm", "what": what, "channels": channels, "options": options}
    if layer.affine:
        case.update(scale=numbers(layer.weight), bias=numbers(layer.bias))
    case["batches"] = []
    for shape in shapes:
        x = draw(shape, mean, deviation).requires_grad_()
        dy = draw(shape, -0.2, 1.5)
        y = layer(x)
        y.backward(dy)
        case["batches"].append(
            {
                "shape": shape,
                "x": numbers(x),
                "y": numbers(y),
                "dy": numbers(dy),
                "dx": numbers(x.grad),
                "runningMean": numbers(layer.running_mean),
                "runningVariance": numbers(layer.running_var),
            }
        )
    case["batchesSeen"] = int(layer.num_batches_tracked)
    if layer.affine:
        case.update(dScale=numbers(layer.weight.grad), dBias=numbers(layer.bias.grad))
    layer.eval()
    x = draw(shapes[-1], mean, deviation).requires_grad_()
    case["evaluated"] = {"shape": shapes[-1], "x": numbers(x), "y": numbers(layer(x))}
    running.append(case)


vectors_of_features = [[5, 3], [2, 3], [7, 3], [4, 3]]
sequences = [[2, 3, 4], [1, 3, 6], [3, 3, 2]]
images = [[2, 2, 3, 2], [1, 2, 2, 2], [3, 2, 2, 3]]
for momentum in [0.1, 1.0, None]:
    options = {"momentum": momentum, "eps": 1e-5}
    ours = {"momentum": momentum, "epsilon": 1e-5}
    add_running("BatchNorm1d, features", torch.nn.BatchNorm1d(3, **options), vectors_of_features, 2.0, 3.0, **ours)
    add_running("BatchNorm1d, sequences", torch.nn.BatchNorm1d(3, **options), sequences, -20.0, 0.1, **ours)
    add_running("BatchNorm2d", torch.nn.BatchNorm2d(2, **options), images, 100.0, 30.0, **ours)
add_running(
    "BatchNorm1d without parameters",
    torch.nn.BatchNorm1d(3, eps=1e-3, momentum=0.25, affine=False),
    vectors_of_features,
    1000.0,
    1.0,
    momentum=0.25,
    epsilon=1e-3,
    affine=False,
)


# One case in a line: a change of one is a change of its line.
lines = [{"torch": torch.__version__, "computed": "float64"}, *operations, *running]
path = pathlib.Path(__file__).with_name("vectors.jsonl")
path.write_text("".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines))
print(f"{path}: {path.stat().st_size} bytes, {len(operations)} cases of operations, {len(running)} of running statistics")
