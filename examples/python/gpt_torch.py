"""Trains a small GPT on token shards, as nanoGPT does, from a mixture of two corpora.

    python examples/python/gpt_torch.py prose.bin code.bin [steps]

The files are nanoGPT's: tokens as uint16. They are characters here, below 256: those of its shakespeare_char, or bytes.
"""

import sys

import numpy as np
import torch

import leat

LENGTH, VOCABULARY, BATCH = 32, 256, 16


class Gpt(torch.nn.Module):
    def __init__(self, width: int = 48, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.token, self.place = torch.nn.Embedding(VOCABULARY, width), torch.nn.Embedding(LENGTH, width)
        block = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
        self.blocks, self.head = torch.nn.TransformerEncoder(block, layers), torch.nn.Linear(width, VOCABULARY)
        self.register_buffer("later", torch.ones(LENGTH, LENGTH).triu(1).bool())  # what a token does not see

    def loss(self, batch: leat.Batch) -> torch.Tensor:
        scores = self.head(self.blocks(self.token(batch["x"]) + self.place.weight, self.later))
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch["y"].flatten())


def main(prose: str, code: str, steps: int = 200) -> None:
    torch.manual_seed(1)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    # [mixture]
    tokens = {"sequence_length": LENGTH, "dtype": "int64", "vocabulary": VOCABULARY}
    prose_part, prose_left = leat.split(leat.TokenShards(prose, **tokens), [0.9, 0.1], seed=1)
    code_part, code_left = leat.split(leat.TokenShards(code, **tokens), [0.9, 0.1], seed=1)
    mixture = leat.Mixture([(prose_part, 0.7), (code_part, 0.3)], samples=steps * BATCH)
    feed = leat.Prefetcher(mixture, device, batch_size=BATCH, seed=1, framework="torch")
    # [/mixture]
    for step, batch in enumerate(feed.epoch(0), 1):
        loss = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}/{steps}  loss {loss.item():.3f}")
    for name, left in (("prose", prose_left), ("code", code_left)):
        with torch.no_grad(), leat.Prefetcher(left, device, batch_size=BATCH, framework="torch") as test:
            print(f"{name}: test loss {np.mean([model.loss(batch).item() for batch in test]):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:4]))
