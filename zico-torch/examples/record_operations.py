#!/usr/bin/env python3
"""Records the operations of some models in training, as the files in zico-mock/traces/operations were made.

    python record_operations.py FOLDER [resnet50 bert-base gpt2-small gcn]

The models are written out here in plain PyTorch, with random weights and random input. They are trained for real on the
CPU, three iterations each; times are by a rule for a GPU (`zico.torch.Rates`), so that the figures do not depend on the
machine that records.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zico.torch import Rates, record_operations


class Bottleneck(nn.Module):
    """The block of ResNet-50 (He et al. 2016), stride in the 3 x 3 convolution."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += self.shortcut(x)
        return self.relu(y)


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for at in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if at == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Layer(nn.Module):
    """A transformer's layer, normalised before (GPT-2) or after (BERT) each part."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind()
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        if self.causal:
            seen = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~seen, float("-inf"))
        y = self.dropout(scores.softmax(-1)) @ v
        return self.dropout(self.out(y.transpose(1, 2).reshape(batch, length, width)))

    def forward(self, x: Tensor) -> Tensor:
        if self.causal:
            x = x + self.attention(self.norm1(x))
            return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Transformer(nn.Module):
    """BERT-base with its head for masked words, or GPT-2 small: 12 layers of 768, the embedding is the last layer too."""

    def __init__(self, vocabulary: int, positions: int, causal: bool, width: int = 768) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.layers = nn.Sequential(*(Layer(width, width // 64, causal) for _ in range(12)))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.head = nn.Identity() if causal else nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.causal = causal

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        x = self.dropout(x if self.causal else self.norm(x))
        x = self.layers(x)
        x = self.norm(x) if self.causal else self.head(x)
        return F.linear(x, self.words.weight)


class Gcn(nn.Module):
    """Two graph convolutions (Kipf and Welling 2017), edges as two lists."""

    def __init__(self, source: Tensor, target: Tensor) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.first, self.second = nn.Linear(128, 64), nn.Linear(64, 40)

    def gather(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(0, self.target, x[self.source])

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(F.relu(self.gather(self.first(x))), 0.5, self.training)
        return self.gather(self.second(x))


#: A model, and the loss of a new batch.
Job = tuple[nn.Module, Callable[[], Tensor], type[torch.optim.Optimizer], str]


def images(batch: int = 16) -> Job:
    model = resnet50()

    def loss() -> Tensor:
        x, y = torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))
        return F.cross_entropy(model(x), y)

    return model, loss, torch.optim.SGD, f"{batch} x 3 x 224 x 224"


def text(causal: bool) -> Job:
    vocabulary, batch, length = (50257, 4, 256) if causal else (30522, 8, 128)
    model = Transformer(vocabulary, 1024 if causal else 512, causal)

    def loss() -> Tensor:
        tokens = torch.randint(vocabulary, (batch, length))
        logits = model(tokens)
        if causal:
            return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    return model, loss, torch.optim.AdamW, f"{batch} x {length} tokens"


def graph(nodes: int = 50_000, edges: int = 1_000_000) -> Job:
    features, labels = torch.randn(nodes, 128), torch.randint(40, (nodes,))
    model = Gcn(torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,)))
    return model, lambda: F.cross_entropy(model(features), labels), torch.optim.Adam, f"{nodes} nodes, {edges} edges"


JOBS: dict[str, Callable[[], Job]] = {
    "resnet50": images,
    "bert-base": lambda: text(causal=False),
    "gpt2-small": lambda: text(causal=True),
    "gcn": graph,
}


def record(name: str, folder: Path, iterations: int = 3) -> None:
    torch.manual_seed(0)
    model, loss, kind, batch = JOBS[name]()
    settings = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    # On parameters one by one, as on the CPU: on a GPU one operation takes many.
    optimizer = kind(model.parameters(), lr=1e-4, foreach=False, **settings)  # type: ignore[call-arg]
    said = f"{name} in plain PyTorch, {batch}, {kind.__name__}, float32, operators of the CPU"
    with record_operations(folder / f"{name}.ztrace", name, skip=1, count=2, rates=Rates(), provenance=said) as recorder:
        for _ in range(iterations):
            recorder.phase("forward")
            now = loss()
            now.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del now


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[2:] or JOBS:
        record(each, target)
        print(f"{each}: {(target / f'{each}.ztrace').stat().st_size} bytes", flush=True)
