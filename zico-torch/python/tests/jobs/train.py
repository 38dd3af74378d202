"""A training script that knows nothing of zico: prints the digests of its losses and of its weights, as JSON.

    python train.py cnn|resnet18|gpt|gan|resnet50|gpt2 [--device D] [--iterations N] [--epochs N] [--accumulate N]
        [--workers N] [--lengths] [--compile] [--greedy] [--end-in N] [--times]

resnet50 and gpt2 are of the size of a GPU. There the same numbers come out each time, if PyTorch has algorithms for that.
"""

import argparse
import hashlib
import itertools
import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


#: When iterations have ended: seconds of a clock that all processes have.
TIMES: list[float] = []


class Block(nn.Module):
    """One block of a transformer."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        attended = attended.transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.out(attended))
        return x + self.dropout(self.down(F.gelu(self.up(self.norms[1](x)))))


class GPT(nn.Module):
    """A language model, a small one if nothing is said."""

    def __init__(
        self, words: int = 1000, width: int = 256, blocks: int = 4, length: int = 128, heads: int = 4
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, 0.1) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def cnn() -> nn.Module:
    """A small network of convolutions."""
    layers: list[nn.Module] = []
    width = 3
    for wider in (32, 64, 128):
        layers += [nn.Conv2d(width, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
        layers += [nn.Conv2d(wider, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        width = wider
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def images(count: int, side: int = 64) -> TensorDataset:
    """Pictures and their classes."""
    random = torch.Generator().manual_seed(1)
    pictures = torch.randn(count, 3, side, side, generator=random)
    return TensorDataset(pictures, torch.randint(0, 10, (count,), generator=random))


def texts(count: int, length: int = 128, words: int = 1000) -> TensorDataset:
    """Tokens and the tokens after them."""
    random = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, words, (count, length + 1), generator=random)
    return TensorDataset(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def job(name: str, steps: int) -> tuple[int, TensorDataset, nn.Module]:
    """A model, what it is trained with, and how much of that at once."""
    if name == "gpt":
        return 4, texts(4 * steps), GPT()
    if name == "gpt2":
        return 8, texts(8 * min(steps, 4), 1024, 50257), GPT(50257, 768, 12, 1024, 12)
    if name == "cnn":
        return 8, images(8 * steps), cnn()
    import torchvision

    if name == "resnet50":
        return 64, images(64 * min(steps, 4), 224), torchvision.models.resnet50(num_classes=10)
    return 8, images(8 * steps), torchvision.models.resnet18(num_classes=10)


def train(arguments: argparse.Namespace) -> dict[str, str]:
    """Trains one of the models, in the way that tutorials do."""
    torch.manual_seed(0)
    steps, device = arguments.iterations * arguments.accumulate, arguments.device
    batch, data, model = job(arguments.model, steps)
    model = model.to(device)
    if arguments.model.startswith("gpt"):
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    loader = DataLoader(data, batch_size=batch, num_workers=arguments.workers)
    # The larger ones have few batches, again and again.
    turns = arguments.epochs * -(-steps * batch // len(data))
    epochs = itertools.islice((batch for _ in range(turns) for batch in loader), arguments.epochs * steps)
    run = torch.compile(model) if arguments.compile else model
    for step, (x, y) in enumerate(epochs, start=1):
        if arguments.lengths:
            # 17, 28, 39, ... up to 127, and so on: what an iteration takes differs from the last one's.
            length = 17 + step * 11 % 111
            x, y = x[:, :length], y[:, :length]
        if arguments.greedy and step % 4 == 3:
            greedy()
        out = run(x.to(device))
        if step == arguments.end_in:
            raise SystemExit(0)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.to(device).reshape(-1))
        loss.backward()
        if step % arguments.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            note(arguments)
        losses.append(loss.detach().clone())
    return digests(losses, [model])


def note(arguments: argparse.Namespace) -> None:
    """An iteration has ended: on the device too, if times are wanted."""
    if arguments.times and arguments.device != "cpu":
        torch.cuda.synchronize()
    TIMES.append(time.monotonic())


def greedy() -> None:
    """Takes more and more until there is no more, drops it, and says so."""
    taken = []
    try:
        for _ in range(96):
            taken.append(torch.ones(2 << 20))
    except torch.OutOfMemoryError:
        print("out of memory", flush=True)


def train_gan(arguments: argparse.Namespace) -> dict[str, str]:
    """Two optimizers, one of which makes two steps for each of the other."""
    torch.manual_seed(0)
    torch.set_default_device(arguments.device)
    maker = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 3 * 32 * 32), nn.Tanh())
    judge = nn.Sequential(nn.Linear(3 * 32 * 32, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
    makers = torch.optim.Adam(maker.parameters(), lr=2e-4)
    judges = torch.optim.Adam(judge.parameters(), lr=2e-4)
    losses = []
    for _ in range(arguments.iterations):
        for _ in range(2):
            judges.zero_grad()
            real, fake = torch.randn(64, 3 * 32 * 32), maker(torch.randn(64, 64)).detach()
            loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake)).mean()
            loss.backward()
            judges.step()
        makers.zero_grad()
        loss = F.softplus(-judge(maker(torch.randn(64, 64)))).mean()
        loss.backward()
        makers.step()
        note(arguments)
        losses.append(loss.detach().clone())
    return digests(losses, [maker, judge])


def digests(losses: list[torch.Tensor], models: list[nn.Module]) -> dict[str, str]:
    """What there is to compare, to the bit."""
    weights = hashlib.sha256()
    for model in models:
        for tensor in model.state_dict().values():
            weights.update(tensor.cpu().numpy().tobytes())
    all_losses = torch.stack(losses).cpu()
    return {
        "losses": hashlib.sha256(all_losses.numpy().tobytes()).hexdigest(),
        "weights": weights.hexdigest(),
        "last": repr(all_losses[-1].item()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["cnn", "resnet18", "gpt", "gan", "resnet50", "gpt2"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--lengths", action="store_true", help="texts of different lengths")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--greedy", action="store_true", help="run out of memory at times, and go on")
    parser.add_argument("--end-in", type=int, help="end in the middle of this step")
    parser.add_argument("--times", action="store_true", help="when each iteration has ended, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.device != "cpu":
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        # Some of a CNN have no other algorithm.
        torch.use_deterministic_algorithms(True, warn_only=not arguments.model.startswith("gpt"))
    found: dict[str, object] = {}
    found |= train_gan(arguments) if arguments.model == "gan" else train(arguments)
    if arguments.times:
        found["times"] = TIMES
    print(json.dumps(found))


if __name__ == "__main__":
    main()
