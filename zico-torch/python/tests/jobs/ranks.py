"""A training of several ranks that knows nothing of zico: the first rank prints the digests, as JSON.

    torchrun --standalone --nproc-per-node 2 ranks.py
"""

import json

import torch
import torch.distributed
import torch.nn.functional as F
import train


def main() -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    whole = train.cnn()
    model = torch.nn.parallel.DistributedDataParallel(whole)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for x, y in torch.utils.data.DataLoader(train.images(8 * 12), batch_size=8):
        mine = slice(4 * rank, 4 * rank + 4)
        loss = F.cross_entropy(model(x[mine]), y[mine])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
    if rank == 0:
        print(json.dumps(train.digests(losses, [whole])))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
