"""A training by Lightning that knows nothing of zico; prints what train.py prints."""

import argparse
import json
import logging
import tempfile
import warnings

import lightning
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from train import cnn, digests, images


class Lit(lightning.LightningModule):
    """The small network of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.losses = cnn(), []

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.losses.append(loss.detach().clone())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=6)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    lit = Lit()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(lit, DataLoader(images(8 * arguments.iterations), batch_size=8))
    print(json.dumps(digests(lit.losses, [lit.model])))


if __name__ == "__main__":
    main()
