#!/usr/bin/env python3
"""Plants bugs in a copy of the tree, one after another; the simulation has to see each.

usage: planted.py [--seeds N] [NAME...]

Each bug is an edit that breaks one rule of what must never break (ARCHITECTURE.md). The copy lies
in a temporary folder; only tests/sim is built in it. For each bug the seed that failed first and
what it found are printed. Exit status: 0 if each was seen within N seeds (1500), 1 if one was not,
2 if an edit does not fit the source any more."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# name: (what it breaks, (file, text to replace, what replaces it), ...)
BUGS = {
    "remap": ("remap before the copy out is done", ("src/move/move.c", """\
        move->counts.early_copies += !leaves && !result->unchanged;
        return;
""", """\
        move->counts.early_copies += !leaves && !result->unchanged;
        move_copy_ended(move, action->lane, NULL);
        return;
""")),
    "reuse": ("reuse a frame while a copy still reads it", ("src/move/move.c", """\
    chunk_change(move, chunk, MOVE_MAPPED_COPYING, new, old);
}
""", """\
    chunk_change(move, chunk, MOVE_MAPPED_COPYING, new, new);
    frame_copy_begin(new);
    frame_copy_end(move->frames, old);
    move->lanes[action->lane].copies[chunk->ticket % MOVE_COPIES].from = new;
    give(move, old);
}
"""), ("src/move/move.c", """\
    chunk_change(move, chunk, MOVE_LANDED, chunk->frame, NULL);
    backup_keep(move, chunk, other);
""", """\
    chunk_change(move, chunk, MOVE_LANDED, chunk->frame, NULL);
    if (other != chunk->frame) backup_keep(move, chunk, other);
""")),
    "launch": ("let a launch go before set access returned", ("src/move/move.c", """\
    case CHUNK_MAPPING:
    case CHUNK_UNMAPPING:
    case CHUNK_STATES: return CHUNK_MISSING;
""", """\
    case CHUNK_MAPPING: return CHUNK_FINE;
    case CHUNK_UNMAPPING:
    case CHUNK_STATES: return CHUNK_MISSING;
""")),
    "cancel": ("unmap a frame under a copy into it that was cancelled", ("src/move/move.c", """\
    if (chunk->ticket <= move->lanes[chunk->lane].ended) land(move, chunk);
""", """\
    struct move_lane *lane = &move->lanes[chunk->lane];
    struct move_copy *copy = &lane->copies[chunk->ticket % MOVE_COPIES];
    if (chunk->ticket > lane->ended) {
        frame_copy_end(move->frames, copy->to);
        copy->to = copy->from;
        frame_copy_begin(copy->to);
    }
    land(move, chunk);
""")),
    "clean": ("drop a chunk as it came, though it was written since", ("src/pool/work.c", """\
    result->unchanged = action->check && digest_is_equal(&result->digest, &action->expected);
""", """\
    result->unchanged = action->check;
""")),
    "kept": ("drop a chunk copied early, though it was written since", ("src/move/policy.c", """\
    action->paid = chunk->early;
    chunk->early = false;
""", """\
    action->paid = action->digest = chunk->early;
    chunk->early = false;
"""), ("src/pool/work.c", """\
    result->unchanged = action->check && digest_is_equal(&result->digest, &action->expected);
""", """\
    bool kept = action->digest;
    bool equal = digest_is_equal(&result->digest, &action->expected);
    result->unchanged = action->check && (kept || equal);
""")),
    "span": ("compare only the first block that lives in a chunk", ("src/block/segment.c", """\
    vp_addr low = segment->blocks[first].start, high = segment->blocks[last - 1].end;
""", """\
    vp_addr low = segment->blocks[first].start, high = segment->blocks[first].end;
""")),
    "busy": ("copy early what is still being written", ("src/move/foreseen.c", """\
            if (!policy_segment_is_idle(move, segment)) break;
            found = chunk;
            least = ahead;
""", """\
            found = chunk;
            least = ahead;
""")),
    "trust": ("launch what is not there while moves are made ahead", ("src/pool/operation.c", """\
    if (!all_ready(op) || vet_is_due(op)) {
""", """\
    if ((!all_ready(op) && !move_looks_ahead(&pool->move)) || vet_is_due(op)) {
""")),
}
SEEN = re.compile(r"^failed: replay with sim --seed (\d+)", re.MULTILINE)


def die(message):
    print("planted.py: " + message, file=sys.stderr)
    sys.exit(2)


def must(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0:
        print(done.stdout[-4000:])
        die(f"`{' '.join(command)}` fails")


def plant(tree, name):
    """Edits the tree. Returns the texts before, by path."""
    before = {}
    for path, old, new in BUGS[name][1:]:
        where = os.path.join(tree, path)
        with open(where, encoding="utf-8") as file:
            text = file.read()
        if text.count(old) != 1:
            die(f"{path} has a text that `{name}` replaces {text.count(old)} times, not once; "
                f"make the edit fit the source again:\n{old}")
        before.setdefault(where, text)
        write(where, text.replace(old, new))
    return before


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def simulate(tree, seeds):
    must(["ninja", "-C", "build", "tests/sim"], tree)
    return subprocess.run(["build/tests/sim", "--seeds", str(seeds)], cwd=tree, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout


def is_seen(tree, name, seeds):
    before = plant(tree, name)
    output = simulate(tree, seeds)
    for path, text in before.items():
        write(path, text)
    failed = SEEN.search(output)
    if not failed:
        print(f"{name}: NOT SEEN in {seeds} seeds: {BUGS[name][0]}", flush=True)
        return False
    finding = output[:failed.start()].strip().splitlines()[-1:] or ["(it said nothing)"]
    print(f"{name}: seen by seed {failed.group(1)}: {BUGS[name][0]}")
    print("    " + finding[0].split("; before:")[0], flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(usage="planted.py [--seeds N] [NAME...]")
    parser.add_argument("--seeds", type=int, default=1500)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BUGS))
    arguments = parser.parse_args()
    names = arguments.names or list(BUGS)
    for name in names:
        if name not in BUGS:
            parser.error(f"no bug is named {name}; there are {', '.join(BUGS)}")
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = os.path.join(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
        must(["meson", "setup", "build"], tree)
        if SEEN.search(simulate(tree, 30)):
            die("the simulation fails with no bug planted")
        return 0 if all([is_seen(tree, name, arguments.seeds) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
