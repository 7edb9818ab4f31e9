"""Trains a perceptron on MNIST with NumPy alone.

    python examples/python/mnist_numpy.py [DIR with the MNIST files] [epochs]
"""

import sys

import numpy as np

import leat


def scores(weights: list[np.ndarray], image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the network computes: its input, the hidden layer, and ten scores a sample."""
    x = image.reshape(len(image), -1).astype(np.float32) / 255
    hidden = np.maximum(x @ weights[0] + weights[1], 0)
    return x, hidden, hidden @ weights[2] + weights[3]


def step(weights: list[np.ndarray], image: np.ndarray, label: np.ndarray, rate: float) -> float:
    """One step of SGD; returns the mean loss."""
    x, hidden, score = scores(weights, image)
    score -= score.max(axis=1, keepdims=True)
    chance = np.exp(score)
    chance /= chance.sum(axis=1, keepdims=True)
    rows = np.arange(len(label))
    loss = -float(np.log(chance[rows, label]).mean())
    chance[rows, label] -= 1
    d_score = chance / len(label)
    d_hidden = (d_score @ weights[2].T) * (hidden > 0)
    for weight, gradient in zip(weights, (x.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_score, d_score.sum(0))):
        weight -= rate * gradient
    return loss


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else "examples/data/mnist"
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    random = np.random.default_rng(1)
    weights = [
        random.normal(0, (2 / 784) ** 0.5, (784, 128)).astype(np.float32), np.zeros(128, np.float32),
        random.normal(0, (2 / 128) ** 0.5, (128, 10)).astype(np.float32), np.zeros(10, np.float32),
    ]

    train = leat.Mnist(folder, split="train")
    feed = leat.Prefetcher(train, "cpu", batch_size=64, seed=1, framework="numpy")
    for epoch in range(epochs):
        losses = [step(weights, batch["image"], batch["label"], 0.2) for batch in feed.epoch(epoch)]
        print(f"epoch {epoch + 1}/{epochs}  loss {sum(losses) / len(losses):.4f}")
    print(feed.stats().table())

    test = leat.Mnist(folder, split="test")
    right = 0
    for batch in leat.Prefetcher(test, "cpu", batch_size=1000, order="sequential", framework="numpy"):
        right += int((scores(weights, batch["image"])[2].argmax(1) == batch["label"]).sum())
    print(f"test accuracy {100 * right / len(test):.2f} %")


if __name__ == "__main__":
    main()
