"""Training as it goes in real life: checkpoints, evaluation, errors that are caught, a host that
fills up, a card that fills up."""
import os
import subprocess
import sys
import tempfile

from jobs.training import adamw, autocast, batch, gpt, parts, stepper


def saved(run):
    """Saves model and optimizer half-way (3 GiB, more than the limit in programs.py), loads them
    into new ones, and goes on."""
    import torch
    model, vocabulary = gpt(run)
    tokens = batch(run, vocabulary)
    held = [model, adamw(run, model)]

    def through_a_file():
        with tempfile.NamedTemporaryFile(suffix=".pt") as file:
            torch.save({"model": held[0].state_dict(), "optimizer": held[1].state_dict()}, file)
            file.flush()
            run.extra["file_bytes"] = os.path.getsize(file.name)
            held[:] = []  # the old ones go first
            model, _ = gpt(run)
            optimizer = adamw(run, model)
            kept = torch.load(file.name, map_location=run.device, weights_only=True, mmap=True)
            model.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])
            held[:] = [model, optimizer]

    done = []

    def step():
        loss = stepper(run, held[0], held[1], tokens)()
        done.append(loss)
        if len(done) == run.steps // 2:
            through_a_file()
        return loss

    run.repeat(step)
    return parts(*held)


def evaluated(run):
    """Every third step is followed by an evaluation in inference mode, with another batch size, and
    by a look for early stopping."""
    import torch
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    tokens, other = batch(run, vocabulary), batch(run, vocabulary, 6)
    train, done, best = stepper(run, model, optimizer, tokens), [], []

    def step():
        loss = train()
        done.append(loss)
        if len(done) % 3 == 0:
            model.eval()
            with torch.inference_mode(), autocast(run):
                best.append(min([float(model(other, other)), *best]))
            model.train()
        return loss

    run.repeat(step)
    run.extra["best"] = best[-1].hex()
    return parts(model, optimizer)


def out_of_memory(run):
    """Asks for too much in each step, in the forward pass and alone, and goes on without."""
    import torch
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    train = stepper(run, model, optimizer, batch(run, vocabulary))
    caught = []

    def too_much():
        if not run.card:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16384.00 GiB")
        return torch.empty(1 << 44, dtype=torch.uint8, device=run.device)

    def step():
        try:
            with autocast(run):
                model(batch(run, vocabulary, 2), batch(run, vocabulary, 2)) + too_much()
        except torch.OutOfMemoryError as error:
            caught.append(str(error))
        optimizer.zero_grad()
        return train()

    run.repeat(step)
    run.extra["caught"] = len(caught)
    run.extra["message"] = caught[0]
    return parts(model, optimizer)


def growing_host(run):
    """Takes 256 MiB more of the host in each step, in part pinned."""
    import torch
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    train = stepper(run, model, optimizer, batch(run, vocabulary))
    kept, size = [], run.size(64 << 20, 1 << 10)

    def step():
        kept.append(torch.ones(size))
        if run.card and len(kept) % 4 == 0:
            kept[-1] = kept[-1].pin_memory()
        return train() + kept[-1][0]

    run.repeat(step)
    return parts(model, optimizer)


HOG = """
import sys, time, torch
free, _ = torch.cuda.mem_get_info()
kept = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda").fill_(1)
torch.cuda.synchronize()
print("there", flush=True)
sys.stdin.read()
"""


def crowded(run):
    """In the fourth step another program starts on the same card and takes all of it but
    CROWD_LEAVE bytes; then this one wants more than before. Not beside other jobs."""
    import torch
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    small, large = batch(run, vocabulary, 2), batch(run, vocabulary, 6)
    done, other = [], []

    def start_another():
        if not run.card:
            return
        environment = {**os.environ, "VRAMPOOL": "0"}
        hog = subprocess.Popen([sys.executable, "-c", HOG, os.environ["CROWD_LEAVE"]], text=True,
                               env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        other.append(hog)
        if hog.stdout.readline().strip() != "there":
            raise RuntimeError("the other program did not start")
        run.extra["left_bytes"] = torch.cuda.mem_get_info()[0]

    def step():
        loss = stepper(run, model, optimizer, small if len(done) < 4 else large)()
        done.append(loss)
        if len(done) == 4:
            start_another()
        return loss

    try:
        run.repeat(step)
        return parts(model, optimizer)
    finally:
        for hog in other:
            hog.kill()
            hog.wait()


JOBS = {"saved": saved, "evaluated": evaluated, "out-of-memory": out_of_memory,
        "growing-host": growing_host, "crowded": crowded}
