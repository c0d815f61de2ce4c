"""Checks on the replay that what is only read is hardly copied out once it has been.

Usage: replay_clean.py REPLAY. Jobs of bench/plan_traces.py whose memory is mostly weights that are
only read, with half the HBM that they need. From the third step on, chunks of which it is not known
are copied out once; over 24 steps the bytes copied out must be at most 5 % of those copied in."""
import json
import os
import subprocess
import sys
import tempfile

import plan_traces

CASES = {"inference": "12G", "lora_ckpt": "10G"}
MOST = 0.05
STEPS = 24


def replay(program, trace, hbm):
    output = subprocess.run([program, trace, "--hbm", hbm, "--steps", str(STEPS), "--json"],
                            check=True, capture_output=True, text=True).stdout
    return json.loads(output)["steps"][2:]


def main(program):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, hbm in CASES.items():
            path = os.path.join(folder, name + ".trace")
            if name == "inference":
                plan_traces.write_inference(path)
            else:
                plan_traces.write_job(path, **plan_traces.JOBS[name])
            steps = replay(program, path, hbm)
            came = sum(step["in_bytes"] for step in steps)
            left = sum(step["out_bytes"] for step in steps)
            clean = sum(step["clean_drops"] for step in steps)
            print(f"{name} at {hbm}: {came / 1e9:.2f} GB in, {left / 1e9:.2f} GB out in"
                  f" {len(steps)} steps, {clean} chunks left as they came")
            failed |= left > MOST * came or clean == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
