"""As much of the CUDA driver API as `truth` needs, through ctypes: no toolkit, only the driver's libcuda."""

import ctypes
from typing import Any

_COMPUTE_MAJOR, _SM_COUNT, _MEMORY_KHZ, _BUS_BITS = 75, 16, 36, 37
_DYNAMIC_SHARED = 8


class CudaError(Exception):
    """A call of the driver API failed; the message names call and code."""


class Cuda:
    """The first GPU with a context of its own, and the module of `kernels` once it is loaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        context = ctypes.c_void_p()
        self._call("cuCtxCreate_v2", ctypes.byref(context), 0, self._device)
        self._module = ctypes.c_void_p()

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(f"{name} returns {code}")

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    @property
    def multiprocessors(self) -> int:
        """How many SMs there are: 132 on an H200."""
        return self._attribute(_SM_COUNT)

    @property
    def is_hopper(self) -> bool:
        """Whether the kernels' instructions are this GPU's."""
        return self._attribute(_COMPUTE_MAJOR) == 9

    @property
    def peak_bytes_per_second(self) -> float:
        """Of the memory: two transfers per cycle on every bit of the bus."""
        return 2 * self._attribute(_MEMORY_KHZ) * 1e3 * self._attribute(_BUS_BITS) / 8

    def load(self, ptx: bytes) -> None:
        """Let the driver compile a module."""
        self._call("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(ptx))

    def function(self, name: str, shared: int = 0) -> ctypes.c_void_p:
        """A kernel, allowed this much dynamic shared memory."""
        found = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(found), self._module, name.encode())
        if shared:
            self._call("cuFuncSetAttribute", found, _DYNAMIC_SHARED, shared)
        return found

    def launch(self, kernel: ctypes.c_void_p, shape: tuple[int, int, int], *values: int) -> None:
        """Start a kernel of (blocks, threads, shared bytes) with 64 bit arguments; does not wait."""
        blocks, threads, shared = shape
        numbers = [ctypes.c_uint64(value) for value in values]
        pointers = (ctypes.c_void_p * len(numbers))(
            *(ctypes.cast(ctypes.byref(number), ctypes.c_void_p) for number in numbers)
        )
        self._call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, shared, None, pointers, None)

    def allocate(self, size: int) -> int:
        """Device memory; freed with the process."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def copy(self, target: int, source: int, size: int) -> None:
        """From device memory to device memory; does not wait."""
        self._call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            None,
        )

    def wait(self) -> None:
        """Until everything that was started is done."""
        self._call("cuCtxSynchronize")
