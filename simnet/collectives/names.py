"""Operations and algorithms by name, and what may run what."""

from __future__ import annotations

from simnet.errors import Problem, SpecError

ALL_REDUCE = "all_reduce"
ALL_GATHER = "all_gather"
REDUCE_SCATTER = "reduce_scatter"
ALL_TO_ALL = "all_to_all"
BROADCAST = "broadcast"
SENDRECV = "sendrecv"
ALL_TO_ALL_V = "all_to_all_v"

RING = "ring"
TREE = "tree"
NVLS = "nvls"
NVLS_TREE = "nvls_tree"
HIERARCHICAL = "hierarchical"
HIERARCHICAL_3 = "hierarchical_3"
PAT = "pat"
SYMMETRIC = "symmetric"
PAIRWISE = "pairwise"
PAIRWISE_NO_PXN = "pairwise_no_pxn"
DIRECT = "direct"
COLLNET = "collnet"
COLLNET_CHAIN = "collnet_chain"
AUTO = "auto"

PLAIN = "plain"
REGISTERED = "registered"
BUFFERS = (PLAIN, REGISTERED, SYMMETRIC)
"""How a program hands its buffers to NCCL; nccl-tests' ``-R 0``, ``-R 1`` and ``-R 2``."""

ALGORITHMS: dict[str, tuple[str, ...]] = {
    ALL_REDUCE: (RING, TREE, NVLS, NVLS_TREE, COLLNET, COLLNET_CHAIN, SYMMETRIC, HIERARCHICAL, HIERARCHICAL_3, DIRECT),
    ALL_GATHER: (RING, COLLNET, PAT, SYMMETRIC, HIERARCHICAL, HIERARCHICAL_3, DIRECT),
    REDUCE_SCATTER: (RING, COLLNET, PAT, SYMMETRIC, HIERARCHICAL, HIERARCHICAL_3, DIRECT),
    ALL_TO_ALL: (PAIRWISE, PAIRWISE_NO_PXN),
    BROADCAST: (RING,),
    SENDRECV: (PAIRWISE, PAIRWISE_NO_PXN),
    ALL_TO_ALL_V: (PAIRWISE, PAIRWISE_NO_PXN),
}
"""Algorithms of each operation; those that NCCL itself would not choose are for what-ifs."""

_ALIASES = {
    "allreduce": ALL_REDUCE,
    "allgather": ALL_GATHER,
    "reducescatter": REDUCE_SCATTER,
    "alltoall": ALL_TO_ALL,
    "a2a": ALL_TO_ALL,
    "bcast": BROADCAST,
    "sendreceive": SENDRECV,
    "p2p": SENDRECV,
    "alltoallv": ALL_TO_ALL_V,
    "a2av": ALL_TO_ALL_V,
}


_ALGORITHM_ALIASES = {
    "sharp": COLLNET,
    "collnetdirect": COLLNET,
    "collnetchain": COLLNET_CHAIN,
    "nvlstree": NVLS_TREE,
    "hierarchical3": HIERARCHICAL_3,
    "sym": SYMMETRIC,
}


def algorithm(name: str) -> str:
    """Return the canonical name of an algorithm; ``algorithm("NVLSTree")`` is ``"nvls_tree"``.

    NCCL's own spellings are understood, and ``sharp`` for ``collnet``; other names come back as they are.
    """
    plain = name.strip().lower().replace("-", "_")
    return _ALGORITHM_ALIASES.get(plain.replace("_", ""), plain)


def reduces_in_network(algorithm: str, num_nodes: int) -> bool:
    """Return whether the switches between nodes reduce."""
    return num_nodes > 1 and algorithm in (COLLNET, COLLNET_CHAIN, NVLS)


EXCHANGES = (SENDRECV, ALL_TO_ALL_V)
"""Operations that are a matrix of messages."""


def operation(name: str) -> str:
    """Return the canonical name of an operation; ``operation("alltoall")`` is ``"all_to_all"``.

    Raises
    ------
    SpecError
        If there is no such operation.
    """
    plain = name.strip().lower().replace("-", "_")
    plain = _ALIASES.get(plain.replace("_", ""), plain)
    if plain not in ALGORITHMS:
        raise SpecError(Problem(message="no such operation", found=f'"{name}"', allowed=", ".join(ALGORITHMS)))
    return plain


def check_algorithm(op: str, algorithm: str) -> None:
    """Raise a SpecError unless *algorithm* is ``auto`` or one of *op*'s."""
    if algorithm != AUTO and algorithm not in ALGORITHMS[op]:
        allowed = ", ".join((AUTO, *ALGORITHMS[op]))
        raise SpecError(Problem(message=f"{op} has no such algorithm", found=f'"{algorithm}"', allowed=allowed))


def check_buffers(buffers: str) -> None:
    """Raise a SpecError unless *buffers* is one of the ways to hand them over."""
    if buffers not in BUFFERS:
        raise SpecError(Problem(message="no such buffers", found=f'"{buffers}"', allowed=", ".join(BUFFERS)))


def bus_factor(op: str, num_ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth.

    Source: NVIDIA nccl-tests, doc/PERFORMANCE.md.

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 8)
    (1.75, 0.875)
    """
    if op in (BROADCAST, SENDRECV):
        return 1.0
    share = (num_ranks - 1) / num_ranks
    return 2 * share if op == ALL_REDUCE else share
