"""Known work for `truth`: `python -m tests.gpu.loads NAME SECONDS`; prints what was done as JSON."""

import json
import sys
import time
from collections.abc import Callable

from tests.gpu.cuda import Cuda
from tests.gpu.kernels import FLOPS_PER_ROUND, WARPGROUP_THREADS, WARPGROUPS, module

GIB = 1024**3
HELD_GIB, COPY_GIB = 40, 4
BURST_SECONDS, PAUSE_SECONDS = 0.05, 20.0
# So much shared memory that a second block finds no room on the same SM.
_ALONE = 160 * 1024
_SLICE_NS, _AHEAD = 100_000_000, 3
_ROUNDS = 100_000

Done = dict[str, float]


def spin(cuda: Cuda, until: float, blocks: int) -> Done:
    """Some blocks, each alone on its SM, without a pause."""
    kernel = cuda.function("spin", _ALONE)
    waiting = 0
    while time.monotonic() < until:
        cuda.launch(kernel, (blocks, 32, _ALONE), _SLICE_NS)
        waiting += 1
        if waiting == _AHEAD:
            cuda.wait()
            waiting = 0
    cuda.wait()
    return {"truth": blocks / cuda.multiprocessors}


def one_block(cuda: Cuda, until: float) -> Done:
    """What fools nvidia-smi."""
    return spin(cuda, until, 1)


def half(cuda: Cuda, until: float) -> Done:
    """Half of the SMs; two such processes take turns, and together are half of the SMs still."""
    return spin(cuda, until, cuda.multiprocessors // 2)


def multiply(cuda: Cuda, until: float) -> Done:
    """A GEMM's inner loop on all SMs: floating point operations per second by the host's clock."""
    kernel = cuda.function("tensor")
    sink = cuda.allocate(256)
    shape = (cuda.multiprocessors, WARPGROUPS * WARPGROUP_THREADS, 0)
    began, launches = time.monotonic(), 0
    while time.monotonic() < until:
        cuda.launch(kernel, shape, _ROUNDS, sink)
        launches += 1
        if launches % _AHEAD == 0:
            cuda.wait()
    cuda.wait()
    flops = launches * shape[0] * WARPGROUPS * _ROUNDS * FLOPS_PER_ROUND
    return {"flops_per_second": flops / (time.monotonic() - began), "sms": cuda.multiprocessors}


def copy(cuda: Cuda, until: float) -> Done:
    """Memory to memory: every byte is read once and written once."""
    size = COPY_GIB * GIB
    source, target = cuda.allocate(size), cuda.allocate(size)
    began, copies = time.monotonic(), 0
    while time.monotonic() < until:
        for _ in range(8):
            cuda.copy(target, source, size)
        cuda.wait()
        copies += 8
    seconds = time.monotonic() - began
    return {"truth": 2 * copies * size / seconds / cuda.peak_bytes_per_second}


def hold(cuda: Cuda, until: float) -> Done:
    """A context that holds memory and does nothing."""
    cuda.allocate(HELD_GIB * GIB)
    time.sleep(max(0.0, until - time.monotonic()))
    return {"truth": 0.0}


def burst(cuda: Cuda, until: float) -> Done:
    """All SMs for 50 ms, every 20 s: the keep-alive."""
    kernel = cuda.function("spin", _ALONE)
    due = time.monotonic()
    while due < until:
        time.sleep(max(0.0, due - time.monotonic()))
        cuda.launch(kernel, (cuda.multiprocessors, 32, _ALONE), int(BURST_SECONDS * 1e9))
        cuda.wait()
        due += PAUSE_SECONDS
    return {"truth": BURST_SECONDS / PAUSE_SECONDS}


LOADS: dict[str, Callable[[Cuda, float], Done]] = {
    "one_block": one_block,
    "half": half,
    "multiply": multiply,
    "copy": copy,
    "hold": hold,
    "burst": burst,
}


def main(name: str, seconds: float) -> None:
    """Run one load for this long after the context stands."""
    cuda = Cuda()
    if not cuda.is_hopper:
        raise SystemExit("the kernels are for Hopper (compute capability 9.0)")
    cuda.load(module())
    done = LOADS[name](cuda, time.monotonic() + seconds)
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
