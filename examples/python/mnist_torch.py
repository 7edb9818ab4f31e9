"""Trains a perceptron on MNIST with PyTorch. Leat reads and copies; no batch is copied again.

    python examples/python/mnist_torch.py [--data DIR] [--device auto|cuda:0|cpu] [--epochs N] [--checkpoint FILE]

With --checkpoint, a run that was stopped (Ctrl-C, kill -9) goes on where the file says.
"""

import argparse
import os

import torch

import leat


# [checkpoint]
def save(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, feed: leat.Prefetcher) -> None:
    """Writes a checkpoint under another name, then renames it: a complete one always exists."""
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "feed": feed.state_dict()}
    torch.save(parts, path + ".new")
    os.replace(path + ".new", path)


def load(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, feed: leat.Prefetcher) -> None:
    """Goes on where the checkpoint says, if there is one."""
    if not os.path.exists(path):
        return
    parts = torch.load(path)
    model.load_state_dict(parts["model"])
    optimizer.load_state_dict(parts["optimizer"])
    feed.load_state_dict(parts["feed"])
# [/checkpoint]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="examples/data/mnist")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint")
    options = parser.parse_args()

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    # [loop]
    train = leat.Mnist(options.data, split="train")
    feed = leat.Prefetcher(train, options.device, batch_size=64, seed=1, framework="torch")
    if options.checkpoint:
        load(options.checkpoint, model, optimizer, feed)

    for epoch in range(feed.next_epoch, options.epochs):
        total, batches = torch.zeros((), device=options.device), feed.epoch(epoch)
        for batch in batches:  # torch's current stream waits for the copy; the host does not
            images = batch["image"].flatten(1).float() / 255
            loss = torch.nn.functional.cross_entropy(model(images), batch["label"].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()  # `loss` itself would keep its batch
        print(f"epoch {epoch + 1}/{options.epochs}  loss {total.item() / len(batches):.4f}")
        if options.checkpoint:
            save(options.checkpoint, model, optimizer, feed)
    # [/loop]
    print(feed.stats().table())

    right = 0
    test = leat.Mnist(options.data, split="test")
    with torch.no_grad():
        for batch in leat.Prefetcher(test, options.device, batch_size=1000, order="sequential", framework="torch"):
            scores = model(batch["image"].flatten(1).float() / 255)
            right += int((scores.argmax(1) == batch["label"]).sum())
    print(f"test accuracy {100 * right / len(test):.2f} %")


if __name__ == "__main__":
    main()
