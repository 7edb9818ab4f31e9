"""Trains a small network on a folder of images, as torchvision's ImageFolder reads it: a folder for each class.

    python examples/python/images_torch.py DIR [epochs]

DIR has the folders train and test, these one for each class. The images are JPEG, PNG or WebP.
"""

import sys
from pathlib import Path

import torch

import leat

SIZE = 32


def network(classes: int) -> torch.nn.Module:
    def layer(channels: int, out: int) -> list[torch.nn.Module]:
        return [torch.nn.Conv2d(channels, out, 3, stride=2, padding=1), torch.nn.BatchNorm2d(out), torch.nn.ReLU()]

    head = [torch.nn.Flatten(), torch.nn.Linear(64 * SIZE // 8 * SIZE // 8, classes)]
    return torch.nn.Sequential(*layer(3, 16), *layer(16, 32), *layer(32, 64), *head)


def main(folder: Path, epochs: int) -> None:
    torch.manual_seed(1)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    # [folder]
    image = {"height": SIZE, "width": SIZE, "planar": True}
    train = leat.ImageFolder(folder / "train", fit="random_resized_crop", scale=(0.6, 1), **image)
    test = leat.ImageFolder(folder / "test", **image)
    feed = leat.Prefetcher(train, device, batch_size=64, seed=1, framework="torch")
    # [/folder]
    model = network(len(train.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        total, batches = torch.zeros((), device=device), feed.epoch(epoch)
        for batch in batches:
            loss = torch.nn.functional.cross_entropy(model(batch["image"].float() / 255), batch["label"].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch + 1}/{epochs}  loss {total.item() / len(batches):.4f}")
    right = 0
    model.eval()
    with torch.no_grad(), leat.Prefetcher(test, device, batch_size=256, framework="torch") as left:
        for batch in left:
            right += int((model(batch["image"].float() / 255).argmax(1) == batch["label"]).sum())
    print(f"test accuracy {100 * right / len(test):.2f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
