"""PyTorch's layers, forward or trained by Adam, with PyTorch's default number of threads."""

import time
from typing import Any

from protocol import serve


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Build the network, and pass or train one batch."""
    import torch  # pyright: ignore[reportMissingImports]

    given = task["settings"]
    height, width, channels = given["shape"]
    layers: list[Any] = []
    for features, kernel, stride in given["layers"]:
        layers += [torch.nn.Conv2d(channels, features, kernel, stride), torch.nn.ReLU()]
        height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, features
    layers += [torch.nn.Flatten(), torch.nn.Linear(height * width * channels, given["units"]), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(given["units"], given["outputs"]))
    optimizer = torch.optim.Adam(network.parameters(), given["learning_rate"], fused=True)
    size = (given["batch"], given["shape"][2], *given["shape"][:2])
    samples = torch.randint(0, 256, size, dtype=torch.uint8)

    def forward() -> None:
        with torch.inference_mode():
            network(samples.float() / 255.0)

    def learn() -> None:
        optimizer.zero_grad()
        network(samples.float() / 255.0).square().mean().backward()
        optimizer.step()

    work = forward if task["algorithm"] == "forward" else learn
    began = time.perf_counter()
    work()
    first = time.perf_counter() - began
    return first, lambda seed: [work() for _ in range(task["steps"])]


if __name__ == "__main__":
    serve(build, lambda _: 0.0)
