"""Writes snapshot-N.pickle, for each protocol N from 2 to 5: what
torch.cuda.memory._dump_snapshot writes, with all that it may hold, of a job of three iterations."""

import pickle

FRAMES = [
    {"filename": "/home/me/tr\u00e4in.py", "line": 17, "name": "forward"},
    {"filename": "??", "line": 0, "name": "at::native::empty_cuda" + "<T>" * 90},
]
SEGMENT = 0x7F0000000000
now = 1_735_227_250_465_000
trace, annotations = [], []


def entry(action, size, addr, after=20, **more):
    """Something happens `after` microseconds."""
    global now
    now += after
    trace.append({
        "action": action, "device_free" if action == "oom" else "addr": SEGMENT + addr, "size": size,
        "stream": 0, "time_us": now, "compile_context": "N/A", "user_metadata": "", "frames": FRAMES,
    } | more)


def free(size, addr, after=20):
    entry("free_requested", size, addr, after)
    entry("free_completed", size, addr, 1)


def annotate(name, stage, after=0):
    global now
    now += after
    annotations.append({"name": name, "stage": stage, "device": 1, "time_us": now})


entry("segment_alloc", 2 << 20, 0)
entry("alloc", 1000, 0x10000)  # a parameter
free(300, 0x20000)  # from before the history
annotate("warm-up", "START")
annotate("forward", "END")  # it began before the history
for i in range(3):
    annotate("iteration", "START", 500)
    annotate("forward", "START", 30)
    entry("alloc", 2000, 0x30000, 100)  # an activation
    entry("alloc", 700, 0x40000, 50)  # a workspace
    free(700, 0x40000, 40)
    annotate("forward", "END")
    if i == 0:
        entry("segment_map", 2 << 20, 0x200000)
        entry("alloc", 64, 0x50000, 5)  # the optimizer's state
    if i == 1:
        entry("alloc", 500, 0x60000)  # a gradient, kept into the next iteration
    if i == 2:
        free(500, 0x60000)
        entry("oom", 1 << 40, 123)
    free(2000, 0x30000, 1000)
    annotate("iteration", "END", 25)
annotate("iteration", "START", 10)  # cut off
free(1000, 0x10000)
entry("snapshot", 0, 0)


def block(size, requested, state):
    return {"size": size, "requested_size": requested, "state": state, "frames": []}


def segment(device, address, blocks):
    return {
        "device": device, "address": address, "total_size": 2 << 20, "allocated_size": 0,
        "active_size": 0, "requested_size": 0, "stream": 0, "segment_type": "small",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": FRAMES, "blocks": blocks,
    }


snapshot = {
    "segments": [
        segment(0, 0x7E0000000000, [block(2 << 20, 1 << 20, "active_allocated")]),
        segment(1, SEGMENT, [
            block(0x1000, 4000, "active_allocated"),  # from before the history
            block(0x4F000, 0, "inactive"),
            block(0x10000, 64, "active_allocated"),
            block(0x1000, 4096, "active_awaiting_free"),
            block(0x19F000, 0, "inactive"),
        ]),
    ],
    "device_traces": [[], trace],
    "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": None, "max_split_size": (1 << 64) - 1, "smallest": -(1 << 63),
        "garbage_collection_threshold": 0.5, "expandable_segments": True, "empty": (),
        "roundup_power2_divisions": {"1": 0}, "tuples": [(1,), (1, -2), (1, -2, 300), (1, -2, 300, 70_000)],
    },
    "external_annotations": annotations,
}

for protocol in range(2, 6):
    with open(f"snapshot-{protocol}.pickle", "wb") as file:
        pickle.dump(snapshot, file, protocol)
