"""Several GPUs: collectives that nothing hides, ranks that come late, work unevenly spread."""

from __future__ import annotations

import numpy as np

from gputui.analysis.finding import Evidence
from gputui.analysis.timeline_rules import Hit, timeline_rule
from gputui.analysis.timeline_rules.steady import SteadyState
from gputui.model.intervals import EMPTY


@timeline_rule(
    "exposed-communication", "communication", needs=("ops",), applies=lambda state: bool(state.communicating)
)
def exposed_communication(state: SteadyState) -> Hit | None:
    """Collectives (NCCL's kernels) run beside no other kernel of their GPU for a tenth of the window.

    A long collective may wait for another rank: ``straggler`` tells, where several ranks are open. Of one rank alone
    it is less sure what the time is for.
    """
    exposed = {}
    total = {}
    for gpu in state.gpus:
        talking = state.union(state.mask(gpu, state.communication))
        computing = state.union(state.mask(gpu, state.facts.kernel_mask & ~state.communication))
        exposed[gpu], total[gpu] = talking.minus(computing).total, talking.total
    if not exposed:
        return None
    gpu = state.worst(lambda one: exposed[one] / max(1, state.length(one)))
    share = exposed[gpu] / max(1, state.length(gpu))
    if share < 0.1:
        return None
    rows = np.flatnonzero(state.mask(gpu, state.communication))
    names = state.facts.timeline.ops.name[rows]
    times = np.bincount(names, weights=state.timeline.ops.duration[rows])
    params = {
        "share_pct": 100 * share, "time": float(exposed[gpu]), "count": len(rows), "gpu": state.number(gpu),
        "gpus": len(state.communicating), "hidden_pct": 100 * (1 - exposed[gpu] / max(1, total[gpu])),
        "name": state.facts.short_name(int(times.argmax())),
        "files": "rank*.sqlite" if state.is_nsys else "rank*.json.gz",
    }  # fmt: skip
    evidence = (Evidence("exposed_communication_pct", 100 * share, "%", 10.0),)
    alone = len(state.communicating) == 1
    return Hit(
        0.5 if alone else 0.8, state.gain(exposed), evidence, params, "alone" if alone else "",
        state.moment_of(rows),
    )  # fmt: skip


@timeline_rule(
    "straggler",
    "communication",
    needs=("all-ranks",),
    effects=("exposed-communication", "device-imbalance"),
    applies=lambda state: bool(state.communicating),
)
def straggler(state: SteadyState) -> Hit | None:
    """The same collective takes much longer on some GPUs than on others: those wait in it for the last to come.

    All ranks leave a collective at about the same time, so the wait is its time on a GPU less the shortest time on any:
    that needs no common clock. It must be a fifth of the collectives' time and 2 % of the window. The bound takes the
    wait of the GPU that waits most to nothing.
    """
    met = state.collectives
    if met is None:
        return None
    worst = int(met.waits.sum(axis=1).argmax())
    wait, length = int(met.waits[worst].sum()), max(1, state.length(met.gpus[worst]))
    whole = int(met.durations[worst].sum())
    share = wait / length
    if share < 0.02 or wait < 0.2 * whole:
        return None
    count = met.durations.shape[1]
    params = {
        "gpu": state.number(met.gpus[worst]), "late": state.number(met.late), "share_pct": 100 * share,
        "wait": float(wait), "count": count, "last_pct": 100 * met.late_share,
        "of_pct": 100 * wait / max(1, whole),
    }  # fmt: skip
    evidence = (Evidence("wait_in_collectives_pct", 100 * share, "%", 2.0),)
    always = met.late_share >= 0.6
    bound = length / max(1, length - wait)
    longest = int(met.waits[worst].argmax())
    moment = state.moment_of(met.rows[worst][longest : longest + 1])
    return Hit(0.75 if always else 0.6, bound, evidence, params, "" if always else "turns", moment)


@timeline_rule("device-imbalance", "communication", needs=("ops",), applies=lambda state: len(state.computing) > 1)
def device_imbalance(state: SteadyState) -> Hit | None:
    """The busy shares of the GPUs that run kernels, collectives left out (waiting in one looks busy), differ by more
    than 15 points. The bound spreads the same work evenly."""
    shares = {}
    for gpu in state.computing:
        busy = state.union(state.mask(gpu, ~state.communication)) if state.in_window.any() else EMPTY
        shares[gpu] = busy.total / max(1, state.window.span_ns)
    most, least = max(shares, key=lambda gpu: shares[gpu]), min(shares, key=lambda gpu: shares[gpu])
    difference = shares[most] - shares[least]
    if difference <= 0.15:
        return None
    mean = sum(shares.values()) / len(shares)
    params = {
        "most": state.number(most), "least": state.number(least), "most_pct": 100 * shares[most],
        "least_pct": 100 * shares[least], "gpus": len(shares), "mean_pct": 100 * mean,
    }  # fmt: skip
    evidence = (Evidence("busy_share_difference_pct", 100 * difference, "%", 15.0),)
    bound = 1 / (1 - min(0.99, shares[most] - mean))
    effects = ("gpu-idle",) if state.least_idle < 0.2 else ()
    return Hit(0.6, bound, evidence, params, moment=state.longest(least), effects=effects)
