"""Cuts v100-excerpt.json.gz out of df_index_resolver.json.gz (see README.md): one step of the profile, its
memory events as they are but for the fields that no importer uses.

    python make_excerpt.py df_index_resolver.json.gz v100-excerpt.json.gz
"""

import gzip
import json
import sys

STEP = "ProfilerStep#2"  # the first one, with which the profile begins


def main(source, target):
    with gzip.open(source) as file:
        profile = json.load(file)
    events = profile.pop("traceEvents")
    step = next(event for event in events if event.get("name") == STEP)
    end = step["ts"] + step["dur"]
    kept = []
    for event in events:
        if event is step:
            kept.append(only(event, "ph", "cat", "name", "pid", "tid", "ts", "dur"))
        elif event.get("name") == "[memory]" and event["ts"] < end:
            args = only(event["args"], "Device Type", "Device Id", "Addr", "Bytes", "Total Allocated")
            kept.append(only(event, "ph", "cat", "s", "name", "pid", "tid", "ts") | {"args": args})
    lines = [f"{json.dumps(key)}: {short(value)}" for key, value in profile.items()]
    lines.append('"traceEvents": [\n' + ",\n".join(map(short, kept)) + "\n]")
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(("{" + ",\n".join(lines) + "}\n").encode())


def only(fields, *names):
    return {name: fields[name] for name in names}


def short(value):
    return json.dumps(value, separators=(",", ":"))


main(*sys.argv[1:])
