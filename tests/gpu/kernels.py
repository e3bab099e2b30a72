"""The kernels of `truth`, as PTX for Hopper: one that only stays, one that keeps the tensor cores busy."""

from string import Template

HEAD = """
.version 8.0
.target sm_90a
.address_size 64
"""

# One warp that looks at the clock until its time is over: an SM with it is active and does nothing.
SPIN = """
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 began, now, length;
    .reg .pred early;
    ld.param.u64 length, [nanoseconds];
    mov.u64 began, %globaltimer;
again:
    mov.u64 now, %globaltimer;
    sub.u64 now, now, began;
    setp.lt.u64 early, now, length;
    @early bra again;
    ret;
}
"""

# A warpgroup multiplies a 64 x 16 tile by a 16 x 256 one (bf16, f32 sums), this often per round.
BATCH, TILE_M, TILE_N, TILE_K = 4, 64, 256, 16
WARPGROUPS, WARPGROUP_THREADS = 2, 128
FLOPS_PER_ROUND = BATCH * 2 * TILE_M * TILE_N * TILE_K
# What an SM of Hopper can do in a cycle, dense bf16.
PEAK_FLOPS_PER_CYCLE = 4096
_SUMS = TILE_M * TILE_N // WARPGROUP_THREADS
_A_BYTES, _B_BYTES = TILE_M * TILE_K * 2, TILE_N * TILE_K * 2
# Tiles without swizzle: core matrices of 8 x 16 bytes; the next along K after 128 bytes, along M or N: 256.
_LAYOUT = (128 >> 4) << 16 | (256 >> 4) << 32


# Zeros times zeros in shared memory, so that power does not lower the clocks. `sink` is written to only if a
# sum is not zero, which never happens: so the compiler can leave no sum out.
TENSOR = Template("""
.visible .entry tensor(.param .u64 rounds, .param .u64 sink)
{
    .shared .align 1024 .b8 tiles[$bytes];
    .reg .f32 d<$count>;
    .reg .u64 left, right, left_over, target, address;
    .reg .u32 at, base;
    .reg .pred more, wrong;
    mov.u32 base, tiles;
    mov.u32 at, %tid.x;
    shl.b32 at, at, 2;
zero:
    add.u32 base, base, at;
    st.shared.u32 [base], 0;
    sub.u32 base, base, at;
    add.u32 at, at, $stride;
    setp.lt.u32 more, at, $bytes;
    @more bra zero;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    cvt.u64.u32 address, base;
    shr.u64 address, address, 4;
    or.b64 left, address, $layout;
    add.u64 address, address, $second;
    or.b64 right, address, $layout;
    ld.param.u64 left_over, [rounds];
    $clear
again:
    wgmma.fence.sync.aligned;
    $multiply
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    sub.u64 left_over, left_over, 1;
    setp.ne.u64 more, left_over, 0;
    @more bra again;
    setp.neu.f32 wrong, d0, 0f00000000;
    @!wrong bra done;
    ld.param.u64 target, [sink];
    cvta.to.global.u64 target, target;
    st.global.f32 [target], d0;
done:
    ret;
}
""")


def tensor() -> str:
    """The text of `tensor(rounds, sink)`."""
    sums = ", ".join(f"d{at}" for at in range(_SUMS))
    multiply = (
        f"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{sums}}}, left, right, 1, 1, 1, 0, 0;"
    )
    return TENSOR.substitute(
        bytes=_A_BYTES + _B_BYTES,
        stride=WARPGROUPS * WARPGROUP_THREADS * 4,
        second=_A_BYTES >> 4,
        layout=_LAYOUT,
        count=_SUMS,
        clear=" ".join(f"mov.f32 d{at}, 0f00000000;" for at in range(_SUMS)),
        multiply="\n    ".join([multiply] * BATCH),
    )


def module() -> bytes:
    """The whole module, as the driver loads it."""
    return (HEAD + SPIN + tensor()).encode() + b"\0"
