"""Recorded jobs on host memory, in one process and in a process each: throughput side by side.

    cargo build --release -p zico-cli
    python3 benches/processes.py --jobs 2,4 --shares 1,0.5,0.25

Each line is one set of jobs under one budget. A job's speed is its iterations a second, counted
while all jobs run and each has done `--warm` iterations, over its own alone; what is printed is
the sum, so that 1 is what the jobs make one after the other. Launches sleep as long as recorded,
times `--scale-time`; every block is filled and checked, which takes the processor's time.
"""

import argparse
import json
import subprocess
import sys

JOBS = ["resnet110-cifar", "gcn", "mobilenet_v2", "dlrm"]


def replay(options: argparse.Namespace, jobs: list[str], *more: str) -> dict:
    command = [options.zico, "replay", *jobs, "--json", *more]
    command += ["--scale-time", str(options.scale_time), "-n", str(options.iterations)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"{options.zico}: {error.strerror}: cargo build --release -p zico-cli, or say --zico PROGRAM")
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout)


def iterations(ends: list[float], until: float) -> float:
    """How many iterations have ended by then, with the share of the one that runs."""
    whole = sum(end <= until for end in ends)
    if whole == len(ends):
        return float(whole)
    begun = ends[whole - 1] if whole else 0.0
    return whole + (until - begun) / (ends[whole] - begun)


def rates(outcome: dict, warm: int) -> list[float]:
    """Iterations a second of each job while all of them run and are warm."""
    ends = [job["iteration_ends_seconds"] for job in outcome["jobs"]]
    start, stop = max(e[warm - 1] for e in ends), min(e[-1] for e in ends)
    if stop <= start:
        sys.exit("a job has ended before another one was warm: more iterations, please (-n)")
    return [(iterations(e, stop) - iterations(e, start)) / (stop - start) for e in ends]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--zico", default="target/release/zico")
    parser.add_argument("--jobs", default="2,4", help="numbers of jobs")
    parser.add_argument("--shares", default="1,0.5,0.25", help="budgets, as -b f=")
    parser.add_argument("--names", default=",".join(JOBS[:2]), help="recorded jobs, in turns")
    parser.add_argument("--scale-time", type=float, default=1.0)
    parser.add_argument("-n", "--iterations", type=int, default=12)
    parser.add_argument("--warm", type=int, default=3)
    options = parser.parse_args()
    names = options.names.split(",")
    alone = {}
    for name in names:
        outcome = replay(options, [name], "-b", "f=1", "--device", "host")
        (alone[name],) = rates(outcome, options.warm)
        print(f"{name} alone: {alone[name]:.3f} iterations a second", flush=True)
    head = "| jobs | f | one process | a process each | ratio | messages/iter. | held of budget (MiB) | patterns wrong |"
    print(head + "\n" + "|".join("-" * len(cell) for cell in head.split("|")), flush=True)
    for count in map(int, options.jobs.split(",")):
        jobs = [names[i % len(names)] for i in range(count)]
        for share in options.shares.split(","):
            outcomes, speeds = [], []
            for device in (["--device", "host"], ["--processes"]):
                outcome = replay(options, jobs, "-b", f"f={share}", *device)
                rate = rates(outcome, options.warm)
                outcomes.append(outcome)
                speeds.append(sum(r / alone[name] for r, name in zip(rate, jobs, strict=True)))
            one, each = outcomes
            messages = sum(job["messages"] / job["iterations"] for job in each["jobs"]) / count
            held, budget = each["peak_held_bytes"] >> 20, each["budget_bytes"] >> 20
            wrong, checked = each["mismatches"], each["patterns_checked"]
            print(
                f"| {count} | {share} | {speeds[0]:.3f} | {speeds[1]:.3f} "
                f"| {speeds[1] / speeds[0]:.3f} | {messages:.1f} | {held} of {budget} "
                f"| {wrong} of {checked} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
