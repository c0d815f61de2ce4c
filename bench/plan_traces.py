#!/usr/bin/env python3
"""Makes traces of jobs that differ from the recorded ones, for bench/plan.py: optimizers, LoRA,
inference, several streams, gradient accumulation, deep and shallow nets, long sequences, a huge
embedding, experts, sizes that fall from layer to layer, small and huge blocks, an op that touches
everything, weights used in turn, two nets that train each other, a recurrent net, skip connections,
a cache that grows, large tables beside a small net, random programs, one that never repeats.

Usage: plan_traces.py FOLDER"""
import argparse
import os
import random

MIB = 1 << 20


class Trace:
    """Writes events; blocks are numbers."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        print("vrampool-trace 1", file=self.file)
        self.count = 0
        self.bytes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def alloc(self, size):
        self.count += 1
        self.bytes[self.count] = int(size)
        print("alloc", self.count, int(size), file=self.file)
        return self.count

    def free(self, *blocks):
        for block in blocks:
            print("free", block, file=self.file)

    def op(self, us, name, blocks, stream=0):
        unique = dict.fromkeys(block for block in blocks if block)
        print("op kernel", stream, int(1000 * us), name, *unique, file=self.file)


class Job:
    """A training job of layers, each some parameters wide (MiB), with their activations. In place
    of one layer many times there may be a list of layers, each (parameters, activations). `foreach`
    is how many tensors one op of the optimizer updates, in a pass for each of its states and two
    more; 0: four in one pass."""

    def __init__(self, trace, layers=12, params=(64, 64, 48, 16), acts=(32, 64, 32, 128), us=100,
                 states=2, checkpoint=False, adapters=False, foreach=0, streams=1, accumulate=1):
        layers = layers if isinstance(layers, list) else [(params, acts)] * layers
        self.trace, self.us, self.states = trace, us, states
        self.acts = [acts for _, acts in layers]
        self.checkpoint, self.foreach = checkpoint, foreach
        self.streams, self.accumulate = streams, accumulate
        self.random = random.Random(1)
        self.params = [[trace.alloc(p * MIB) for p in params] for params, _ in layers]
        self.adapters = [[trace.alloc(2 * MIB) for _ in params] for params, _ in layers] \
            if adapters else None
        self.trained = self.adapters or self.params
        self.state = [[[trace.alloc(trace.bytes[p]) for _ in range(states)] for p in layer]
                      for layer in self.trained]
        for number, layer in enumerate(self.params):
            for k, param in enumerate(layer):
                trace.op(5, f"init{number}.{k}", [param])

    def some_us(self):
        return self.us * self.random.uniform(0.3, 2)

    def weights(self, layer, k):
        return [self.params[layer][k]] + ([self.adapters[layer][k]] if self.adapters else [])

    def forward(self, layer, given):
        made = []
        for k in range(len(self.params[layer])):
            out = self.trace.alloc(self.acts[layer][k % len(self.acts[layer])] * MIB)
            self.trace.op(self.some_us(), f"forward{k}",
                          [*self.weights(layer, k), made[-1] if made else given, out],
                          layer % self.streams)
            made.append(out)
        return made

    def backward(self, layer, given, made, grad, grads):
        for k in reversed(range(len(made))):
            source = made[k - 1] if k else given
            grads[layer][k] = grads[layer][k] or self.trace.alloc(
                self.trace.bytes[self.trained[layer][k]])
            passed = self.trace.alloc(self.trace.bytes[source])
            self.trace.op(self.some_us(), f"backward{k}",
                          [*self.weights(layer, k), grad, source, passed])
            self.trace.op(self.some_us(), f"gradient{k}", [grad, source, grads[layer][k]])
            self.trace.free(grad, made[k])
            grad = passed
        return grad

    def pass_batch(self, grads):
        given = self.trace.alloc(self.acts[0][0] * MIB)
        first = given
        self.trace.op(self.us / 4, "embed", [self.params[0][0], given])
        saved = []
        for layer in range(len(self.params)):
            made = self.forward(layer, given)
            if self.checkpoint:
                self.trace.free(*made[:-1])
            saved.append((given, made))
            given = made[-1]
        grad = self.trace.alloc(self.trace.bytes[given])
        self.trace.op(self.us, "loss", [given, grad])
        for layer in reversed(range(len(self.params))):
            given, made = saved[layer]
            if self.checkpoint:
                again = self.forward(layer, given)
                self.trace.free(again.pop())
                made = again + made[-1:]
            grad = self.backward(layer, given, made, grad, grads)
        self.trace.free(grad, first)

    def update(self, grads):
        names = [(layer, k) for layer in range(len(self.params)) for k in range(len(grads[layer]))]
        width = self.foreach or 4
        for start in range(0, len(names), width):
            group = names[start:start + width]
            phases = range(2 + self.states) if self.foreach else [None]
            for phase in phases:
                used = []
                for layer, k in group:
                    state = self.state[layer][k]
                    used += [self.trained[layer][k]] if phase is None or phase >= len(state) else []
                    used += state if phase is None or phase >= len(state) else [state[phase]]
                    used += [grads[layer][k]] if phase is None or phase < len(state) else []
                self.trace.op(self.us * 0.3, f"update{phase}", used)

    def step(self):
        grads = [[None] * len(layer) for layer in self.params]
        self.trace.op(3, "begin", [self.params[0][0]])
        for _ in range(self.accumulate):
            self.pass_batch(grads)
        self.update(grads)
        for layer in grads:
            self.trace.free(*layer)


JOBS = {
    "adam": {},
    "adam_ckpt": {"checkpoint": True, "layers": 24, "us": 200},
    "foreach": {"foreach": 8, "layers": 16},
    "foreach_all": {"foreach": 60, "layers": 30, "us": 600},
    "sgd": {"states": 0, "layers": 24, "us": 300},
    "momentum": {"states": 1, "layers": 16, "us": 400},
    "lora": {"adapters": True, "layers": 24, "us": 150},
    "lora_ckpt": {"adapters": True, "checkpoint": True, "layers": 24, "us": 150,
                  "params": (256, 256, 192, 64), "acts": (8, 16, 8, 32)},
    "streams": {"streams": 3, "us": 200},
    "accumulate": {"accumulate": 4, "layers": 10, "us": 80},
    "wide": {"layers": 6, "params": (512, 512, 300, 40), "acts": (200, 800, 200, 900), "us": 2000},
    "small": {"layers": 8, "params": (1.2, 4, 3, 2.5), "acts": (1.5, 3, 7, 2), "us": 30},
    "slow": {"layers": 24, "us": 2000},
    "deep": {"layers": 150, "params": (4, 4, 6, 2), "acts": (3, 6, 3, 12), "us": 40},
    "shallow": {"layers": 4, "params": (1024, 2048, 1024), "acts": (256, 640, 256), "us": 15000},
    "long_sequence": {"layers": 24, "params": (16, 16, 12, 4), "acts": (128, 256, 128, 512),
                      "us": 2500},
    "embedding": {"layers": [((6000,), (48,))] + 16 * [((48, 64, 48), (48, 64, 48))], "us": 1000},
    "falling": {"layers": [((2 + 2 * k * k, 2 + k * k), (800 >> k, 640 >> k))
                           for k in (0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5)],
                "us": 1500},
    "experts": {"layers": 12 * [((48, 48) + 8 * (40,), (32, 32) + 8 * (6,))], "us": 300},
    "few_ops": {"layers": 2, "params": (900, 1400), "acts": (700, 1100), "us": 30000, "states": 1},
    "big_blocks": {"layers": 10, "params": (400, 640), "acts": (330, 350), "us": 6000},
    "short_ops": {"layers": 290, "params": (16, 16, 12, 4), "acts": (4, 8, 4, 16), "us": 12,
                  "checkpoint": True},
    "ops5000": {"layers": 290, "params": (32, 32, 24, 8), "acts": (8, 16, 8, 32), "us": 100,
                "checkpoint": True},
}


def write_job(path, steps=4, **shape):
    with Trace(path) as trace:
        job = Job(trace, **shape)
        for _ in range(steps):
            job.step()


def write_inference(path):
    with Trace(path) as trace:
        layers = [[trace.alloc(size * MIB) for size in (128, 128, 256)] for _ in range(40)]
        caches = [trace.alloc(32 * MIB) for _ in layers]
        for _ in range(6):
            given = trace.alloc(16 * MIB)
            trace.op(5, "embed", [given])
            for layer, cache in zip(layers, caches):
                for k, weight in enumerate(layer):
                    out = trace.alloc(16 * MIB)
                    trace.op(60, f"matmul{k}", [weight, given, out, cache if k == 0 else None])
                    trace.free(given)
                    given = out
            trace.op(5, "sample", [given])
            trace.free(given)


def write_everything(path):
    """One op touches all there is."""
    with Trace(path) as trace:
        blocks = [trace.alloc(100 * MIB) for _ in range(60)]
        for _ in range(5):
            for i in range(0, 60, 2):
                trace.op(500, "some", blocks[i:i + 2])
            trace.op(3000, "all", blocks)


def write_idle_experts(path):
    """Of the eight experts of a layer two are trained in this step; the others rest."""
    with Trace(path) as trace:
        layers = [[trace.alloc(96 * MIB) for _ in range(8)] for _ in range(16)]
        state = {expert: (trace.alloc(96 * MIB), trace.alloc(96 * MIB))
                 for layer in layers for expert in layer}
        for _ in range(4):
            trace.op(5, "begin", layers[0][:1])
            kept = [trace.alloc(64 * MIB)]
            for number, layer in enumerate(layers):
                kept.append(trace.alloc(64 * MIB))
                trace.op(900, "forward", [layer[number % 8], layer[number % 7], *kept[-2:]])
            grads = []
            for number in reversed(range(len(layers))):
                layer = layers[number]
                chosen = dict.fromkeys((layer[number % 8], layer[number % 7]))
                grads += [(expert, trace.alloc(96 * MIB)) for expert in chosen]
                trace.op(1800, "backward", [*chosen, *kept[-2:],
                                            *(grad for _, grad in grads[-len(chosen):])])
                trace.free(kept.pop())
            trace.free(*kept)
            for expert, grad in grads:
                trace.op(100, "update", [expert, *state[expert], grad])
                trace.free(grad)


def write_cycle(path, count, mib, us):
    """Each op reads a block of its own."""
    with Trace(path) as trace:
        blocks = [trace.alloc(mib * MIB) for _ in range(count)]
        for _ in range(6):
            for number, block in enumerate(blocks):
                trace.op(us, f"read{number}", [block])


class Net:
    """Layers of a convolution and a normalization, each with its output (MiB), and Adam."""

    def __init__(self, trace, name, params, acts):
        self.trace, self.name, self.acts = trace, name, acts
        self.params = [trace.alloc(size * MIB) for size in params]
        self.state = [[trace.alloc(size * MIB) for _ in range(2)] for size in params]

    def forward(self, given):
        made = []
        for param, size in zip(self.params, self.acts):
            conv, norm = self.trace.alloc(size * MIB), self.trace.alloc(size * MIB)
            self.trace.op(250, self.name + "conv", [made[-1] if made else given, param, conv])
            self.trace.op(60, self.name + "norm", [conv, norm])
            made += [conv, norm]
        return made

    def backward(self, given, made, grad, grads):
        """Frees what forward made, but not what it was given. grads None: of the input only."""
        trace = self.trace
        for k in reversed(range(len(self.params))):
            conv, norm = made[2 * k:2 * k + 2]
            source = made[2 * k - 1] if k else given
            inner, passed = trace.alloc(trace.bytes[conv]), trace.alloc(trace.bytes[source])
            trace.op(80, self.name + "norm_back", [grad, conv, inner])
            trace.free(grad, norm)
            trace.op(260, self.name + "conv_back", [inner, self.params[k], passed])
            if grads is not None:
                grads[k] = grads.get(k) or trace.alloc(trace.bytes[self.params[k]])
                trace.op(260, self.name + "gradient", [inner, source, grads[k]])
            trace.free(inner, conv)
            grad = passed
        trace.free(grad)

    def update(self, grads):
        for k, param in enumerate(self.params):
            self.trace.op(30, self.name + "adam", [param, *self.state[k], grads[k]])
        self.trace.free(*grads.values())


def write_gan(path):
    """Two nets: one trains on what is real and what the other makes, then the other by it."""
    with Trace(path) as trace:
        maker = Net(trace, "maker_", (64, 32, 16, 8, 4), (32, 64, 128, 256, 400))
        judge = Net(trace, "judge_", (4, 8, 16, 32, 64), (400, 256, 128, 64, 8))

        def pass_judge(given, grads):
            made = judge.forward(given)
            grad = trace.alloc(trace.bytes[made[-1]])
            trace.op(20, "loss", [made[-1], grad])
            judge.backward(given, made, grad, grads)

        for _ in range(5):
            real, noise, grads = trace.alloc(300 * MIB), trace.alloc(8 * MIB), {}
            trace.op(10, "begin", [real])
            trace.op(5, "noise", [noise])
            made = maker.forward(noise)
            pass_judge(real, grads)
            pass_judge(made[-1], grads)
            judge.update(grads)
            pass_judge(made[-1], None)
            grad, grads = trace.alloc(trace.bytes[made[-1]]), {}
            trace.op(20, "through", [grad, made[-1]])
            maker.backward(noise, made, grad, grads)
            maker.update(grads)
            trace.free(real, noise)


def write_recurrent(path, times=150, layers=2):
    """Many small ops on the same weights; what each time step makes is kept until its gradient."""
    with Trace(path) as trace:
        weights = [trace.alloc(64 * MIB) for _ in range(layers)]
        state = [[trace.alloc(64 * MIB) for _ in range(2)] for _ in weights]
        for _ in range(4):
            trace.op(3, "begin", weights[:1])
            hidden, kept = [trace.alloc(4 * MIB) for _ in weights], []
            trace.op(5, "zero", hidden)
            first = list(hidden)
            for time in range(times):
                for k, weight in enumerate(weights):
                    gates, out = trace.alloc(16 * MIB), trace.alloc(4 * MIB)
                    trace.op(12, "gates", [weight, hidden[k], hidden[k - 1] if k else None, gates])
                    trace.op(5, "cell", [gates, hidden[k], out])
                    kept.append((k, gates, hidden[k], out))
                    hidden[k] = out
            grads = [trace.alloc(64 * MIB) for _ in weights]
            for k, gates, before, out in reversed(kept):
                trace.op(8, "cell_back", [gates, before, out])
                trace.op(25, "gates_back", [weights[k], gates, before, grads[k]])
                trace.free(gates, out)
            trace.free(*first)
            for k, weight in enumerate(weights):
                trace.op(60, "adam", [weight, *state[k], grads[k]])
            trace.free(*grads)


def write_skips(path, largest=512, depth=5):
    """Down to small outputs and up again, where each level gets the one on the way down as well."""
    with Trace(path) as trace:
        params = [trace.alloc((3 << 2 * k) * MIB) for k in range(depth)] * 2
        params[depth:] = [trace.alloc((4 << 2 * k) * MIB) for k in reversed(range(depth))]
        state = [[trace.alloc(trace.bytes[param]) for _ in range(2)] for param in params]
        for _ in range(4):
            outs = [trace.alloc(48 * MIB)]
            trace.op(9, "begin", outs)
            for k, param in enumerate(params):
                level = min(k, 2 * depth - 1 - k)
                skip = outs[level + 1] if k >= depth else None
                outs.append(trace.alloc((largest >> level) * MIB))
                trace.op(700, "conv", [outs[k], skip, param, outs[-1]])
            grads, of_params = {len(params): trace.alloc(trace.bytes[outs[-1]])}, []
            for k in reversed(range(len(params))):
                sources = [k] + ([min(k, 2 * depth - 1 - k) + 1] if k >= depth else [])
                for source in sources:
                    grads[source] = grads.get(source) or trace.alloc(trace.bytes[outs[source]])
                of_params.append(trace.alloc(trace.bytes[params[k]]))
                trace.op(1400, "conv_back", [grads[k + 1], params[k], of_params[-1],
                                             *(outs[source] for source in sources),
                                             *(grads[source] for source in sources)])
                trace.free(grads.pop(k + 1), outs.pop())
            trace.free(grads.pop(0), outs.pop())
            for k, grad in enumerate(reversed(of_params)):
                trace.op(60, "adam", [params[k], *state[k], grad])
                trace.free(grad)


def write_growing(path, layers=32):
    """Text, word by word: each layer's cache is copied into a larger one for each."""
    with Trace(path) as trace:
        weights = [trace.alloc(225 * MIB) for _ in range(layers)]
        caches = [trace.alloc(64 * MIB) for _ in range(layers)]
        for _ in range(24):
            given = trace.alloc(2 * MIB)
            trace.op(4, "embed", [given])
            for k, weight in enumerate(weights):
                longer = trace.alloc(trace.bytes[caches[k]] + 2 * MIB)
                trace.op(20, "extend", [caches[k], longer])
                trace.free(caches[k])
                caches[k], out = longer, trace.alloc(2 * MIB)
                trace.op(190, "layer", [given, weight, longer, out])
                trace.free(given)
                given = out
            trace.op(5, "sample", [given])
            trace.free(given)


def write_tables(path):
    """Large tables that are read at the start and written at the end, beside a small net."""
    with Trace(path) as trace:
        tables = [trace.alloc(size * MIB) for size in (2000, 1500, 1000, 800, 600, 400, 300, 200)]
        state = [trace.alloc(trace.bytes[table]) for table in tables]
        weights = [trace.alloc(48 * MIB) for _ in range(5)]
        for _ in range(5):
            trace.op(5, "begin", weights[:1])
            found = [trace.alloc(40 * MIB) for _ in tables]
            for table, out in zip(tables, found):
                trace.op(120, "look_up", [table, out])
            outs = [trace.alloc(320 * MIB)]
            trace.op(100, "join", found + outs)
            for weight in weights:
                outs.append(trace.alloc(128 * MIB))
                trace.op(700, "layer", [weight, *outs[-2:]])
            for weight in reversed(weights):
                trace.op(1400, "layer_back", [weight, *outs[-2:]])
                trace.free(outs.pop())
            for table, momentum, out in zip(tables, state, found):
                trace.op(200, "update", [outs[0], table, momentum, out])
            trace.free(*found, *outs)


def write_tiny(path):
    some = random.Random(1)
    with Trace(path) as trace:
        blocks = [trace.alloc(some.randint(1, 200) << 10) for _ in range(3000)]
        for _ in range(4):
            trace.op(10, "begin", blocks[:1])
            for i in range(0, 2996, 3):
                out = trace.alloc(some.randint(1, 50) << 10)
                trace.op(20, "kernel", [*blocks[i:i + 3], out])
                trace.free(out)


def write_huge(path):
    """Blocks of many GiB."""
    with Trace(path) as trace:
        large, small, middle = trace.alloc(20 << 30), trace.alloc(6 << 30), trace.alloc(12 << 30)
        for _ in range(5):
            out = trace.alloc(3 << 30)
            trace.op(100000, "x", [small, out])
            trace.op(150000, "y", [middle, out])
            trace.free(out)
            trace.op(300000, "z", [large, small])
            trace.op(10, "begin", [middle])


def write_no_repetition(path):
    some = random.Random(3)
    live = []
    with Trace(path) as trace:
        for i in range(3000):
            if len(live) < 200 or some.random() < 0.4:
                live.append(trace.alloc(some.choice([3, 17, 32, 64, 100]) * MIB))
            if len(live) > 250:
                trace.free(live.pop(some.randrange(len(live))))
            trace.op(some.randint(5, 400), f"kernel{i}",
                     some.sample(live, min(len(live), some.randint(1, 4))))


def random_program(some):
    """Events of one step: blocks by number, kept ones as negative numbers."""
    events, live, count = [], [], 0
    for _ in range(400):
        while some.random() < 0.5:
            events.append(("alloc", count, some.choice([2, 20, 32, 64, 77, 128]) * MIB))
            live.append(count)
            count += 1
        used = [-1 - some.randrange(200) for _ in range(some.randint(0, 3))]
        used += some.sample(live, min(len(live), some.randint(0, 4)))
        events.append(("op", some.randint(5, 500), f"kernel{some.randint(0, 30)}", used,
                       some.randrange(2)))
        while live and some.random() < 0.45 + 0.001 * len(live):
            events.append(("free", live.pop(some.randrange(len(live)))))
    return events, live


def write_random(path, seed):
    """Every second one hands blocks on to the next step."""
    some = random.Random(seed)
    events, rest = random_program(some)
    with Trace(path) as trace:
        kept = [trace.alloc(some.choice([2, 9, 33, 64, 128, 300]) * MIB) for _ in range(200)]
        carried = []
        for _ in range(5):
            blocks = {}
            trace.op(7, "begin", kept[:1])
            for number, event in enumerate(events):
                if event[0] == "alloc":
                    blocks[event[1]] = trace.alloc(event[2])
                elif event[0] == "free":
                    trace.free(blocks.pop(event[1]))
                else:
                    used = [kept[-1 - i] if i < 0 else blocks[i] for i in event[3]]
                    trace.op(event[1], event[2], used, event[4])
                if number == len(events) // 4 and carried:
                    trace.op(50, "late", carried[:3])
                    trace.free(*carried)
                    carried = []
            left = [blocks[i] for i in rest]
            if seed % 2:
                carried = left
            else:
                trace.free(*left)


def main(folder):
    os.makedirs(folder, exist_ok=True)

    def path(name):
        return os.path.join(folder, name + ".trace")

    for name, shape in JOBS.items():
        write_job(path(name), **shape)
    write_inference(path("inference"))
    write_everything(path("everything"))
    write_idle_experts(path("idle_experts"))
    write_cycle(path("cycle"), 16, 512, 2000)
    write_cycle(path("cycle_small"), 64, 8, 100)
    write_gan(path("gan"))
    write_recurrent(path("recurrent"))
    write_skips(path("skips"))
    write_growing(path("growing"))
    write_tables(path("tables"))
    write_tiny(path("tiny"))
    write_huge(path("huge"))
    write_no_repetition(path("no_repetition"))
    for seed in range(4):
        write_random(path(f"random{seed}"), seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes the traces that bench/plan.py compares.")
    parser.add_argument("folder", metavar="FOLDER", help="where they go; made if it is not there")
    main(parser.parse_args().folder)
