"""Whether a driver serves an image's CUDA. Pure.

Source: NVIDIA, "CUDA Compatibility": a driver serves every CUDA up to its own; of its own major version newer
ones too (since CUDA 11), but for features of the newer driver and for PTX, which is compiled as it starts.
"""

import re

Version = tuple[int, int]
_VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d+)*")


def version(text: str) -> Version | None:
    """Major and minor of `12.4` or `13.0.0`; None where it says nothing."""
    found = _VERSION.fullmatch(text.strip())
    return (int(found[1]), int(found[2] or 0)) if found else None


def shown(of: Version) -> str:
    """As people write it."""
    return f"{of[0]}.{of[1]}"


def serves(driver: Version | None, wanted: Version) -> bool:
    """Whether the driver is known to serve it in full."""
    return driver is not None and driver >= wanted


def sentence(image: str, wanted: Version, offer: str, driver: Version | None) -> str:
    """What to expect of the image on devices with this driver; empty where all of it works."""
    if serves(driver, wanted):
        return ""
    if driver is None:
        return f"{image} has CUDA {shown(wanted)}; which CUDA the driver of {offer} serves is not known."
    told = f"{image} has CUDA {shown(wanted)}, and the driver of {offer} serves {shown(driver)} at most"
    if driver[0] == wanted[0]:
        return f"{told}: most programs run, those that are compiled for the GPU as they start (PTX) do not."
    return f"{told}: programs will not find a GPU that they can use."
