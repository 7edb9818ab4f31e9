"""Trains a perceptron on MNIST with JAX.

    python examples/python/mnist_jax.py [DIR with the MNIST files] [epochs]
"""

import sys

import jax
import jax.numpy as jnp

import leat

Weights = list[tuple[jax.Array, jax.Array]]


def scores(weights: Weights, image: jax.Array) -> jax.Array:
    """Ten scores a sample."""
    x = image.reshape(len(image), -1).astype(jnp.float32) / 255
    for matrix, bias in weights[:-1]:
        x = jax.nn.relu(x @ matrix + bias)
    matrix, bias = weights[-1]
    return x @ matrix + bias


def mean_loss(weights: Weights, image: jax.Array, label: jax.Array) -> jax.Array:
    chance = jax.nn.log_softmax(scores(weights, image))
    return -jnp.take_along_axis(chance, label[:, None].astype(jnp.int32), axis=1).mean()


@jax.jit
def step(weights: Weights, image: jax.Array, label: jax.Array) -> tuple[Weights, jax.Array]:
    """One step of SGD: the new weights, and the mean loss."""
    loss, gradients = jax.value_and_grad(mean_loss)(weights, image, label)
    return jax.tree.map(lambda weight, gradient: weight - 0.2 * gradient, weights, gradients), loss


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else "examples/data/mnist"
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    device = "cpu" if jax.default_backend() == "cpu" else "cuda:0"
    first, second = jax.random.split(jax.random.key(1))
    weights: Weights = [
        (jax.random.normal(first, (784, 128)) * (2 / 784) ** 0.5, jnp.zeros(128)),
        (jax.random.normal(second, (128, 10)) * (2 / 128) ** 0.5, jnp.zeros(10)),
    ]

    train = leat.Mnist(folder, split="train")
    # JAX runs ahead of the loop, and a step that has not run yet holds its batch. The loop waits for the step before.
    feed = leat.Prefetcher(
        train, device, batch_size=64, seed=1, last_batch="drop", max_leases=5, framework="jax"
    )
    for epoch in range(epochs):
        total = jnp.zeros(())
        for batch in feed.epoch(epoch):
            before = total
            weights, loss = step(weights, batch["image"], batch["label"])
            total += loss
            before.block_until_ready()
        print(f"epoch {epoch + 1}/{epochs}  loss {float(total) / len(feed):.4f}")
    print(feed.stats().table())

    test = leat.Mnist(folder, split="test")
    right = 0
    for batch in leat.Prefetcher(test, device, batch_size=1000, order="sequential", framework="jax"):
        right += int((scores(weights, batch["image"]).argmax(1) == batch["label"]).sum())
    print(f"test accuracy {100 * right / len(test):.2f} %")


if __name__ == "__main__":
    main()
