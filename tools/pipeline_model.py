#!/usr/bin/env python3
"""The time of a pipeline of layers over ranks: python3 tools/pipeline_model.py [--check]

Ranks 0 .. R - 1 have a part of the layers each; a pass of `rows` rows goes from rank to rank as rows x width floats, and
what the last one gives comes back to rank 0, which has the head. A message takes latency + bytes / bandwidth; a rank works on one pass
at a time. T ranks may share a range of layers (--split): after a product each gives its columns to the others.
docs/pipeline.md has the formulas, and prints what this prints; tests/cli/test_mpi.py compares them with runs.
"""
import heapq
import math
import sys


def hop(rows, width, bandwidth, latency):
    """Seconds of one message."""
    return latency + rows * width * 4 / bandwidth


def exchanges(parts, layers, columns, rows, bandwidth, latency, per_layer=4):
    """Seconds of all exchanges of a pass in `layers` layers: per_layer of each, of `columns` results a row together. A rank
    gets what the others have computed; messages go out in doubling steps."""
    return layers * (per_layer * math.ceil(math.log2(parts)) * latency + rows * columns * 4 * (parts - 1) / parts / bandwidth)


def generation(stages, rows, width, bandwidth, latency, in_flight, head, share=0):
    """Tokens per second. stages: seconds of a pass of `rows` rows on each range (of ranks that share one: with their
    exchanges); head: seconds of the head, on the first; share: until all its parts have the rows; in_flight: passes under way
    at the same time, each of `rows` requests."""
    one = hop(rows, width, bandwidth, latency)
    stages = [stages[0] + share] + list(stages[1:])
    turn = sum(stages) + head + (len(stages) * one if len(stages) > 1 else 0) # of one pass, alone
    busiest = max([stages[0] + head] + list(stages[1:]) + [rows * width * 4 / bandwidth if len(stages) > 1 else 0])
    return in_flight * rows / max(turn, in_flight * busiest)


def prompt(stages, passes, rows, width, bandwidth, latency, head):
    """Seconds until the first token of a prompt of passes x rows tokens; nothing comes back but of the last pass."""
    one = hop(rows, width, bandwidth, latency) if len(stages) > 1 else 0
    busiest = max(list(stages) + [rows * width * 4 / bandwidth if len(stages) > 1 else 0])
    return sum(stages) + (len(stages) - 1) * one + (passes - 1) * busiest + (hop(1, width, bandwidth, latency) if len(stages) > 1 else 0) + head


def simulate_exchanges(parts, layers, columns, rows, bandwidth, latency, work, per_layer=4):
    """Seconds of a pass in parts, event by event: every part computes `work` seconds in all, and before the next product each
    has sent its block, and those that it has, to the part 1, 2, 4, .. further, waiting for what comes from there."""
    now = [0.0] * parts
    for _ in range(layers * per_layer):
        now = [t + work / (layers * per_layer) for t in now]
        have = [1] * parts # blocks
        step = 1
        while step < parts:
            give = [min(h, parts - h) for h in have]
            block = rows * columns / per_layer * 4 / parts / bandwidth
            now = [max(now[p], now[(p + step) % parts]) + latency + give[(p + step) % parts] * block for p in range(parts)]
            have = [have[p] + give[(p + step) % parts] for p in range(parts)]
            step *= 2
    return max(now)


def simulate(stages, rows, width, bandwidth, latency, in_flight, head, turns=400):
    """The same as generation(), event by event: ranks and links take what comes first."""
    n = len(stages)
    rank, link = [0.0] * n, [0.0] * n
    done = 0
    send = rows * width * 4 / bandwidth
    queue = [(0.0, i, 0) for i in range(in_flight)] # time, pass, stage; stage n: the head
    heapq.heapify(queue)
    end = 0.0
    while done < turns * in_flight:
        t, i, s = heapq.heappop(queue)
        r = s if s < n else 0
        start = max(t, rank[r])
        rank[r] = start + (stages[s] if s < n else head)
        t = rank[r]
        if s == n:
            done += 1
            end = max(end, t)
            heapq.heappush(queue, (t, i, 0))
            continue
        if n > 1:
            link[s] = max(link[s], t) + send
            t = link[s] + latency
        heapq.heappush(queue, (t, i, s + 1))
    return done * rows / end


# name, width, bytes of weights that a pass of one row reads, of four rows (of experts more), of the head; multiply-adds a token
SHAPES = (("70B, 4.8 bits", 8192, 40e9, 40e9, 0.6e9, 69e9), ("671B, 37B active, 4.5 bits", 7168, 20e9, 55e9, 0.5e9, 36e9))
RANKS = (("CPUs", 200e9, 40e12), ("GPUs", 3e12, 400e12)) # bytes and operations a second of a rank
NETWORKS = (("10 GbE", 1.1e9, 30e-6), ("InfiniBand", 45e9, 3e-6)) # bytes a second, seconds of latency


def table():
    print("| model | ranks | network | 1 request | 8 requests, a pass each | 16 requests, 4 a pass | prompt of 4,096 in passes of 512 |")
    print("|---|---|---|---|---|---|---|")
    for name, width, one, four, head, macs in SHAPES:
        for kind, memory, ops in RANKS:
            for n in (4, 8):
                for net, bandwidth, latency in NETWORKS:
                    way = {"width": width, "bandwidth": bandwidth, "latency": latency}
                    a = generation(stages=[one / memory / n] * n, rows=1, in_flight=1, head=head / memory, **way)
                    b = generation(stages=[one / memory / n] * n, rows=1, in_flight=8, head=head / memory, **way)
                    c = generation(stages=[four / memory / n] * n, rows=4, in_flight=4, head=head / memory, **way)
                    d = prompt(stages=[512 * 2 * macs / ops / n] * n, passes=8, rows=512, head=head / memory, **way)
                    print("| %s | %d %s | %s | %.1f | %.1f | %.1f | %.2f s |" % (name, n, kind, net, a, b, c, d))


# Columns of results of a layer that are exchanged: Q, K and V; attention's output; the FFN (after its activation); down. A share of
# weights, of activations and of matrices that are narrow or stay whole is left out.
COLUMNS = (8192 + 2 * 1024) + 8192 + 28672 + 8192
LAYERS_70B = 80


def split_table():
    """70B over T ranks: in ranges of layers, or all of them sharing every layer."""
    name, width, one, _, head, macs = SHAPES[0]
    print("| 70B, 4.8 bits | network | 1 request, cut by layers | cut by rows | exchanges | passes of 512 of a prompt, by layers | by rows |")
    print("|---|---|---|---|---|---|---|")
    for kind, memory, ops in RANKS[:1]:
        for n in (2, 4, 8):
            for net, bandwidth, latency in NETWORKS:
                link = {"bandwidth": bandwidth, "latency": latency}
                way = dict(link, width=width)
                layers = generation(stages=[one / memory / n] * n, rows=1, in_flight=1, head=head / memory, **way)
                each = exchanges(parts=n, layers=LAYERS_70B, columns=COLUMNS, rows=1, **link)
                hops = hop(1, **way)
                rows = generation(stages=[one / memory / n + each], rows=1, in_flight=1, head=head / memory / n + hops + exchanges(
                    parts=n, layers=1, columns=128256, rows=1, per_layer=1, **link), share=hops, **way)
                passes = 8
                by_layers = passes * 512 / prompt(stages=[512 * 2 * macs / ops / n] * n, passes=passes, rows=512, head=head / memory, **way)
                of_512 = exchanges(parts=n, layers=LAYERS_70B, columns=COLUMNS, rows=512, **link)
                by_rows = 512 / (512 * 2 * macs / ops / n + of_512 + hop(512, **way))
                print("| %d %s | %s | %.1f | %.1f | %.1f ms | %.0f tokens/s | %.0f |" % (n, kind, net, layers, rows, 1e3 * each, by_layers, by_rows))


def check():
    """The formulas beside the simulation."""
    worst = 0
    for n in (1, 2, 3, 4, 8):
        for uneven in (1.0, 1.7):
            for in_flight in (1, 2, 3, 4, 8, 16):
                for latency in (0, 1e-4, 5e-3, 5e-2):
                    for bandwidth in (1e7, 1e9, 1e11):
                        stages = [2e-3 * (uneven if i == n // 2 else 1) for i in range(n)]
                        a = generation(stages, 1, 8192, bandwidth, latency, in_flight, 1e-3)
                        b = simulate(stages, 1, 8192, bandwidth, latency, in_flight, 1e-3)
                        worst = max(worst, abs(a - b) / b)
    for parts in (2, 3, 4, 5, 8, 16):
        for rows in (1, 512):
            for latency in (0, 1e-5, 1e-3):
                for bandwidth in (1e8, 1e10):
                    a = 1e-2 + exchanges(parts, 10, 40000, rows, bandwidth, latency)
                    b = simulate_exchanges(parts, 10, 40000, rows, bandwidth, latency, 1e-2)
                    worst = max(worst, abs(a - b) / b)
    print("formula and simulation differ by at most %.1f %%" % (100 * worst))
    return worst < 0.01


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if check() else 1)
    table()
    print()
    split_table()
