"""Trains a perceptron on MNIST, from a torch Dataset, by a trainer that knows nothing of Leat but one line.

    python examples/python/mnist_loader.py [DIR with the MNIST files] [epochs]
"""

import gzip
import pathlib
import sys

import numpy as np
import torch

from leat import DataLoader  # this was: from torch.utils.data import DataLoader


class Mnist(torch.utils.data.Dataset):
    """Images as float32 [784], and digits."""

    def __init__(self, folder: str, split: str) -> None:
        self.images = read(folder, f"{split}-images-idx3-ubyte", 16).reshape(-1, 784)
        self.labels = read(folder, f"{split}-labels-idx1-ubyte", 8)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.images[index]).float() / 255, int(self.labels[index])


def read(folder: str, name: str, header: int) -> np.ndarray:
    path = pathlib.Path(folder) / name
    data = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(name + ".gz").read_bytes())
    return np.frombuffer(data, np.uint8, offset=header).copy()


def main(folder: str = "examples/data/mnist", epochs: int = 2) -> None:
    torch.manual_seed(1)
    train = DataLoader(Mnist(folder, "train"), batch_size=64, shuffle=True, num_workers=2)
    test = DataLoader(Mnist(folder, "t10k"), batch_size=256, num_workers=2)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        total = 0.0
        for images, labels in train:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}  loss {total / len(train):.4f}")
    with torch.no_grad():
        right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in test)
    print(f"test accuracy {100 * right / len(test.dataset):.2f} %")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
