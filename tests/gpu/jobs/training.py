"""Training in PyTorch, in the ways that need nothing but torch."""
import contextlib
import os


def parts(model, optimizer):
    """What is compared of a training job."""
    import torch
    states = [state[name] for state in optimizer.state.values() for name in sorted(state)
              if torch.is_tensor(state[name])]
    local = [getattr(tensor, "_local_tensor", tensor) for tensor in (*model.parameters(), *states)]
    return {"parameters and state": local}


def gpt(run, layers=12, recompute=False, tokens=512):
    """A GPT of 0.25 G parameters: 4 GiB with gradients and AdamW's state."""
    import torch
    from gpt_model import GPT, VOCABULARY
    vocabulary = run.size(VOCABULARY, 512)
    with torch.device(run.device):
        return GPT(run.size(1024, 128), run.size(layers, 2), run.size(tokens, 32),
                   recompute=recompute, vocabulary=vocabulary), vocabulary


def batch(run, vocabulary, sequences=4, tokens=512):
    import torch
    return torch.randint(0, vocabulary, (run.size(sequences, 2), run.size(tokens, 32)),
                         device=run.device)


def adamw(run, model, **kind):
    import torch
    kind = kind or {"fused": True}
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **kind)


def autocast(run, kind="bfloat16"):
    import torch
    return torch.autocast(run.device, getattr(torch, kind))


def stepper(run, model, optimizer, tokens, around=None):
    """The plain step of a training loop."""
    def step():
        with around or autocast(run):
            loss = model(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


def eager(run):
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    run.repeat(stepper(run, model, optimizer, batch(run, vocabulary)))
    return parts(model, optimizer)


def foreach(run):
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model, foreach=True)
    run.repeat(stepper(run, model, optimizer, batch(run, vocabulary)))
    return parts(model, optimizer)


def checkpointed(run):
    """Recomputes activations, of longer sequences."""
    model, vocabulary = gpt(run, recompute=True, tokens=1024)
    optimizer = adamw(run, model)
    run.repeat(stepper(run, model, optimizer, batch(run, vocabulary, 4, 1024)))
    return parts(model, optimizer)


def amp(run):
    """fp16 with a GradScaler, whose scale starts so high that the first steps are skipped."""
    import torch
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    scaler = torch.amp.GradScaler(run.device, init_scale=2.0 ** 24, enabled=run.card)
    tokens = batch(run, vocabulary)

    def step():
        with autocast(run, "float16" if run.card else "bfloat16"):
            loss = model(tokens, tokens)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    run.repeat(step)
    run.extra["scale"] = scaler.get_scale()
    return parts(model, optimizer)


@contextlib.contextmanager
def one_rank(run):
    import torch
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0"), ("RANK", "0"),
                        ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")):
        os.environ.setdefault(name, value)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl" if run.card else "gloo", store=store, rank=0,
                                         world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def ddp(run):
    import torch
    with one_rank(run):
        model, vocabulary = gpt(run)
        wrapped = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[0] if run.card else None, gradient_as_bucket_view=True)
        optimizer = adamw(run, model)
        run.repeat(stepper(run, wrapped, optimizer, batch(run, vocabulary)))
        return fixed(parts(model, optimizer))


def fsdp(run):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    with one_rank(run):
        model, vocabulary = gpt(run)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        mesh = init_device_mesh(run.device, (1,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        optimizer = adamw(run, model)
        run.repeat(stepper(run, model, optimizer, batch(run, vocabulary),
                           contextlib.nullcontext()))
        return fixed(parts(model, optimizer))


def fixed(state):
    """Fingerprints taken now, for what is gone later."""
    from measure import fingerprint
    return {name: fingerprint(tensors) for name, tensors in state.items()}


class Samples:
    """A data set that makes each sample in the worker that is asked for it."""

    def __init__(self, count, vocabulary, tokens):
        self.count, self.vocabulary, self.tokens = count, vocabulary, tokens

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, self.vocabulary, (self.tokens,), generator=generator)


def loader(run):
    """Batches come from forked workers through pinned memory."""
    import torch
    model, vocabulary = gpt(run)
    optimizer = adamw(run, model)
    size = run.size(4, 2)
    samples = Samples(size * run.steps, vocabulary, run.size(512, 32))
    torch.ones(1, device=run.device)  # the workers are forked from a process that uses the card
    feed = iter(torch.utils.data.DataLoader(samples, size, num_workers=2, pin_memory=run.card))

    def step():
        tokens = next(feed).to(run.device, non_blocking=True)
        return stepper(run, model, optimizer, tokens)()

    run.repeat(step)
    return parts(model, optimizer)


def make_experts(run, width, count):
    """A layer of experts, each of which chooses its tokens: grouped matrix products."""
    import torch
    from torch import nn
    grouped = getattr(nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    if grouped is None:
        raise ImportError("torch._grouped_mm", name="torch._grouped_mm")

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.router = nn.Linear(width, count)
            self.up = nn.Parameter(torch.randn(count, width, 4 * width) / width ** 0.5)
            self.down = nn.Parameter(torch.randn(count, 4 * width, width) / (2 * width ** 0.5))

        def forward(self, x):
            y = self.norm(x)
            share = len(y) // count  # a multiple of 16, as the kernels want it
            weight, chosen = self.router(y).softmax(-1).topk(share, dim=0)
            weight, chosen = weight.t().flatten(), chosen.t().flatten()
            ends = torch.arange(share, len(y) + 1, share, device=x.device, dtype=torch.int32)
            low = y[chosen].to(torch.bfloat16)
            hidden = grouped(low, self.up.to(torch.bfloat16), offs=ends)
            out = grouped(nn.functional.gelu(hidden), self.down.to(torch.bfloat16), offs=ends)
            return x.index_add(0, chosen, weight[:, None] * out)

    return Experts()


def experts(run):
    import torch
    width, count = run.size(1024, 64), run.size(8, 2)
    with torch.device(run.device):
        layers = [make_experts(run, width, count) for _ in range(run.size(4, 2))]
        x = torch.randn(run.size(4096, 64), width)
    model = torch.nn.Sequential(*layers)
    optimizer = adamw(run, model)

    def step():
        loss = (model(x) - x.roll(1, 0)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run.repeat(step)
    return parts(model, optimizer)


JOBS = {"eager": eager, "foreach": foreach, "checkpointed": checkpointed, "amp": amp, "ddp": ddp,
        "fsdp2": fsdp, "loader": loader, "moe": experts}
