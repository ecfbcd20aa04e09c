"""How much two texts have in common at their ends. Pure."""


def shared_start(a: str, b: str) -> int:
    """How many characters two texts share at their start, halving what is left to compare."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def shared_end(a: str, b: str, start: int = 0) -> int:
    """How many characters two texts share at their end, of what follows `start`."""
    size, other = len(a), len(b)
    low, high = 0, min(size, other) - start
    while low < high:
        middle = (low + high + 1) // 2
        if a[size - middle : size - low] == b[other - middle : other - low]:
            low = middle
        else:
            high = middle - 1
    return low
