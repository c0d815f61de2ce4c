"""torch.compile in its three modes, and CUDA graphs taken by hand.

What a graph uses stays where it is, so these keep a moving average of the parameters beside the
optimizer's state: 12 of 20 bytes a parameter are used outside the graphs, one tensor at a time.
Inductor's cache is shared between the runs that are compared (TORCHINDUCTOR_CACHE_DIR), because its
autotuning chooses by time."""
from jobs.training import adamw, autocast, parts


def model_of(run):
    """A GPT of 0.23 G parameters in few layers, so that compiling takes not too long."""
    import torch
    from gpt_model import GPT
    vocabulary = run.size(8192, 512)
    with torch.device(run.device):
        model = GPT(run.size(2048, 128), run.size(4, 2), run.size(256, 32), vocabulary=vocabulary)
        tokens = torch.randint(0, vocabulary, (2, run.size(256, 32)))
    for table in (model.token, model.position):
        table.requires_grad_(False)  # their gradients repeat exactly only without graphs
    return model, tokens


class Follower:
    """The optimizer, and a moving average that follows the parameters."""

    def __init__(self, run, model):
        self.model = model
        self.optimizer = adamw(run, model, foreach=False)
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.average = [p.detach().clone() for p in self.trained]

    def step(self):
        import torch
        self.optimizer.step()
        with torch.no_grad():
            for kept, now in zip(self.average, self.trained):
                kept.lerp_(now, 0.01)

    def parts(self):
        return {**parts(self.model, self.optimizer), "average": self.average}


def compiled(**options):
    def job(run):
        import torch
        model, tokens = model_of(run)
        follower = Follower(run, model)
        fast = torch.compile(model, **options) if run.card or not options else model

        def step():
            torch.compiler.cudagraph_mark_step_begin()
            with autocast(run):
                loss = fast(tokens, tokens)
            loss.backward()
            value = loss.detach().clone()
            follower.step()
            follower.optimizer.zero_grad()
            return value

        run.repeat(step)
        return follower.parts()
    return job


def captured(run):
    """Forward and backward as one graph, replayed each step."""
    import torch
    model, tokens = model_of(run)
    follower = Follower(run, model)

    def work():
        with autocast(run):
            loss = model(tokens, tokens)
        loss.backward()
        return loss.detach()

    if not run.card:
        raise ImportError("CUDA graphs need a card", name="a card")
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            work()
            follower.optimizer.zero_grad()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    def step():
        graph.replay()  # gradients are written anew, not added to: they were None at the capture
        follower.step()
        return loss

    run.repeat(step)
    return follower.parts()


JOBS = {"compile": compiled(), "reduce-overhead": compiled(mode="reduce-overhead"),
        "max-autotune": compiled(mode="max-autotune"), "graph": captured}
