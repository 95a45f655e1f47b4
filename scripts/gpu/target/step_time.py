"""Steps of the large Llama by PyTorch alone: step_time.py eager|compile. Prints JSON: losses, and seconds of each step."""

import argparse
import json
import time

import llama
import tensors
import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["eager", "compile"])
    for name in ("config", "weights", "data", "dtype", "device"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("batch", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    config = llama.LlamaConfig(**json.loads(options.config))
    model = llama.make_model(config, getattr(torch, options.dtype), options.device)
    with torch.no_grad():
        weights = tensors.load_file(options.weights)
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            value.copy_(weights[name])
    del weights
    optimizer = llama.make_optimizer(model.parameters())
    data = torch.frombuffer(bytearray(open(options.data, "rb").read()), dtype=torch.uint16).to(torch.int64)

    def loss_of(tokens, targets):
        return llama.cross_entropy(model(tokens), targets)

    if options.mode == "compile":
        # Without a GPU this is a trial of the script, and no C++ compiler need be there.
        loss_of = torch.compile(loss_of, backend="inductor" if options.device == "cuda" else "aot_eager")
    rows, size = options.batch, config.context
    cuda = options.device == "cuda"
    losses, seconds = [], []
    for step in range(options.steps):
        begin = time.perf_counter()
        windows = [data[(step * rows + i) * size : (step * rows + i + 1) * size + 1] for i in range(rows)]
        tokens = torch.stack([w[:-1] for w in windows]).to(options.device)
        targets = torch.stack([w[1:] for w in windows]).to(options.device)
        loss = loss_of(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))  # waits for the device
        if cuda:
            torch.cuda.synchronize()  # the optimizer's step is not part of the loss
        seconds.append(time.perf_counter() - begin)
    memory = torch.cuda.max_memory_allocated() if cuda else 0
    print(json.dumps({"losses": losses, "seconds": seconds, "memory": memory}))


if __name__ == "__main__":
    main()
