#!/usr/bin/python3
"""A lower bound on the time of a trace's last step when the card holds only so much: what no plan
beats that copies whatever leaves out and back, and uses nothing in place. In the manner of a fluid:
any part of a block may leave in any gap between two uses, at no cost but that of the link, which
carries 55.3 GB/s one way, or 49.6 each.

Against bounds by slices of the step, which take an op's data to leave and come while it runs, each
op's run and the wait before it are intervals of their own: what an op touches is all there from its
start to its end. For plan.py's --bound; with Debian's python3-scipy. For up to 200 ops: the
programme grows with the square of their number, and 400 took more than 14 GB of memory.

Usage: op_bound.py TRACE GIGABYTES (1e9 bytes)"""
import sys
from collections import defaultdict

import numpy
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

PAGE = 2 << 20
ONE_WAY, EACH_WAY = 55.3, 49.6  # GB/s, which is MB/ms
FIRST_MS = 0.1  # of the first op, whose time counts idle time of the host


def read(path):
    """Events, and bytes of blocks in GB, whole pages."""
    events, size = [], {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            word, *rest = line.split() or [""]
            if word == "alloc":
                size[rest[0]] = -(-int(rest[1]) // PAGE) * PAGE / 1e9
                events.append(("alloc", rest[0]))
            elif word == "free":
                events.append(("free", rest[0]))
            elif word == "op":
                blocks = [block for block in dict.fromkeys(rest[4:]) if block in size]
                events.append(("op", int(rest[2]) / 1e6, rest[3], blocks))
    return events, size


def last_step(events):
    """First and last event of the last whole step: from one op to the next whose name comes once in
    each."""
    places = defaultdict(list)
    for number, event in enumerate(events):
        if event[0] == "op":
            places[event[2]].append(number)

    def is_even(at):
        gaps = numpy.diff(at[-3:])
        return len(at) >= 3 and gaps.std() < 0.02 * gaps.mean()

    once = min((at for at in places.values() if is_even(at)), key=lambda at: (len(at), at[0]))
    return once[-2], once[-1]


class Step:
    """Ops of a step with their durations in ms; `held`: GB at home while each runs if nothing
    leaves; `gaps`: GB that may leave between the end of op p and the start of op q, which may lie
    in the next step; (p, q, whether it comes back)."""

    def __init__(self, path):
        events, self.size = read(path)
        first, last = last_step(events)
        self.ms = []
        self.uses, self.born, self.died = defaultdict(list), {}, {}
        self.old = {event[1] for event in events[:first] if event[0] == "alloc"}
        self.old -= {event[1] for event in events[:first] if event[0] == "free"}
        for event in events[first:last]:
            if event[0] == "op":
                for block in event[3]:
                    self.uses[block].append(len(self.ms))
                self.ms.append(event[1])
            else:
                (self.born if event[0] == "alloc" else self.died)[event[1]] = len(self.ms)
        self.ms[0] = min(self.ms[0], FIRST_MS)
        self.held, self.gaps = numpy.zeros(len(self.ms)), defaultdict(float)
        for block, uses in self.uses.items():
            self.add(block, uses)
        self.add_carried()

    def add(self, block, uses):
        count, size = len(self.ms), self.size[block]
        stays = block not in self.died
        begin = 0 if block in self.old else uses[0]
        self.held[begin:self.died.get(block, count)] += size
        for p, q in zip(uses, uses[1:]):
            self.gaps[p, q, True] += size
        if block in self.old and stays:
            self.gaps[uses[-1], uses[0] + count, True] += size
        elif not stays:
            self.gaps[uses[-1], self.died[block], False] += size

    def add_carried(self):
        """Blocks of one step that die in the next, in the order of their births and deaths."""
        born = sorted((at, block) for block, at in self.born.items()
                      if block not in self.died and self.uses[block])
        died = sorted((at, block) for block, at in self.died.items()
                      if block in self.old and self.uses[block])
        for (_, block), (_, earlier) in zip(born, died):
            size = min(self.size[block], self.size[earlier])
            self.gaps[self.uses[block][-1], self.uses[earlier][0] + len(self.ms), True] += size


class Programme:
    """A linear programme, row by row."""

    def __init__(self, variables):
        self.variables = variables
        self.rows, self.columns, self.values, self.limits = [], [], [], []

    def add_variables(self, count):
        self.variables += count
        return range(self.variables - count, self.variables)

    def add_row(self, terms, limit):
        """The sum of all (variable, value) is at most the limit."""
        for variable, value in terms:
            self.rows.append(len(self.limits))
            self.columns.append(variable)
            self.values.append(value)
        self.limits.append(limit)

    def solve(self, cost):
        shape = len(self.limits), self.variables
        matrix = coo_matrix((self.values, (self.rows, self.columns)), shape).tocsr()
        return linprog(numpy.pad(cost, (0, self.variables - len(cost))), A_ub=matrix,
                       b_ub=self.limits, bounds=(0, None), method="highs")


def add_gap(programme, size, away, ins, outs, returns):
    """Variables for what leaves and comes back in each interval of a gap; `away`: terms for what is
    not at home at the end of each interval."""
    left = programme.add_variables(len(away))
    back = programme.add_variables(len(away)) if returns else range(0)
    programme.add_row([(variable, 1) for variable in left], size)
    for number, terms in enumerate(away):
        missing = [(left[k], -1) for k in range(number + 1)]
        missing += [(back[k], 1) for k in range(number + 1)] if returns else []
        terms += missing
        outs[number].append(left[number])
        if returns:
            ins[number].append(back[number])
            programme.add_row(missing, 0)  # nothing comes before it has left
    if returns:  # and all of it does
        programme.add_row([(v, 1) for v in left] + [(v, -1) for v in back], 0)


def bound(path, gigabytes):
    """(None, seconds with everything on the card, seconds or None if no op order fits)."""
    step = Step(path)
    count = len(step.ms)
    programme = Programme(count)  # the waits in ms
    # Interval 2i is the wait before op i, 2i + 1 its run.
    away, ins, outs = ([[] for _ in range(2 * count)] for _ in range(3))
    for (p, q, returns), size in step.gaps.items():
        inside = [k % (2 * count) for k in range(2 * p + 2, 2 * q + 1)]
        if inside:
            add_gap(programme, size, *([lists[k] for k in inside] for lists in (away, ins, outs)),
                    returns)
    for k in range(2 * count):
        programme.add_row(away[k], gigabytes - step.held[k // 2])
        for one, other in ((ins[k], outs[k]), (outs[k], ins[k])):
            terms = [(v, 1e3 / ONE_WAY) for v in one]
            terms += [(v, 1e3 / EACH_WAY - 1e3 / ONE_WAY) for v in other]
            if k % 2:
                programme.add_row(terms, step.ms[k // 2])
            elif terms:
                programme.add_row(terms + [(k // 2, -1)], 0)
    solved = programme.solve(numpy.ones(count))
    least = (sum(step.ms) + solved.fun) / 1e3 if solved.status == 0 else None
    return None, sum(step.ms) / 1e3, least


if __name__ == "__main__":
    print(bound(sys.argv[1], float(sys.argv[2]))[2])
