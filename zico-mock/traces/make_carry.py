"""Makes the profile that carry.ztrace comes from: a job that replaces its loss in each iteration.

    python3 make_carry.py carry.json
    zico convert carry.json carry.ztrace --provenance "made by make_carry.py: a loss of 8 MiB is freed in the iteration after its own"

Five blocks of 1 MiB persist. Each of five iterations makes twelve blocks of 5 MiB in its forward pass and then
the loss, frees the loss of the iteration before, and frees the twelve in its backward pass.
"""

import json
import sys

MIB = 1 << 20

events = []
now, address = 1000, 0x1000


def memory(size, at):
    args = {"Bytes": size, "Addr": at, "Device Type": 1, "Device Id": 0}
    events.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": now, "args": args})


def alloc(size):
    global address, now
    memory(size, address)
    address += 1 << 24
    now += 10
    return address - (1 << 24)


def free(size, at):
    global now
    memory(-size, at)
    now += 10


def span(category, name, start):
    events.append(
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": now - start}
    )


def op(name):
    global now
    start = now
    now += 1000
    span("cpu_op", name, start)


for _ in range(5):
    alloc(MIB)
loss = None
for _ in range(5):
    begun = now
    live = []
    for layer in range(12):
        live.append(alloc(5 * MIB))
        op(f"layer{layer}")
    new = alloc(8 * MIB)
    op("loss")
    if loss is not None:
        free(8 * MIB, loss)
    loss = new
    span("user_annotation", "forward", begun)
    backward = now
    while live:
        op("backward")
        free(5 * MIB, live.pop())
    span("user_annotation", "backward", backward)
    span("user_annotation", "iteration", begun)
    now += 100
json.dump({"traceEvents": events}, open(sys.argv[1], "w"))
