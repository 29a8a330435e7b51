"""Constants of collective communication: what ``topologies/parts/collectives.yaml`` may hold, and its loader."""

from __future__ import annotations

from functools import cache
from typing import Literal, Self

from pydantic import Field, model_validator

from simnet import units
from simnet.errors import Problem, SpecError
from simnet.library import find
from simnet.spec.base import Constant, SpecModel, require_unit
from simnet.spec.load import build, read_yaml

Protocol = Literal["ll", "ll128", "simple"]
"""Wire protocol of NCCL: flagged 8-byte stores, flagged 128-byte lines, or fences."""
PROTOCOLS: tuple[Protocol, ...] = ("ll", "ll128", "simple")
"""All protocols, least latency first."""
_THREE_NODES = 3
_PLAIN_TRANSPORT = "infiniband"


class _Record(SpecModel):
    """Several numbers of one origin: their unit, source, date and spread."""

    spread: float = Field(ge=0)
    """How far sources and measurements lie from the values, as a fraction."""
    unit: str
    """Unit of the values; ``"1"`` for plain numbers."""
    source: str = Field(min_length=1)
    """Where the numbers come from."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    """Date of the source."""
    note: str = ""
    """What a reader should know before trusting them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        require_unit(self.unit)
        return self


class ByProtocol(_Record):
    """One number for each protocol."""

    ll: float
    """Value for LL."""
    ll128: float
    """Value for LL128."""
    simple: float
    """Value for Simple."""

    def si(self, protocol: Protocol) -> float:
        """Return the value for *protocol* in SI."""
        value: float = getattr(self, protocol)
        return value * units.si_factor(self.unit)


class ByNodes(_Record):
    """One number for one node, two nodes and more."""

    one: float
    """Value inside one node."""
    two: float
    """Value for two nodes."""
    more: float
    """Value for three and more nodes."""

    def si(self, num_nodes: int) -> float:
        """Return the value for *num_nodes* in SI."""
        value = self.one if num_nodes == 1 else self.more if num_nodes >= _THREE_NODES else self.two
        return value * units.si_factor(self.unit)


class Table(_Record):
    """A list of numbers, its meaning told by its field."""

    values: tuple[float, ...]
    """The numbers."""

    def si(self) -> tuple[float, ...]:
        """Return the values in SI."""
        return tuple(value * units.si_factor(self.unit) for value in self.values)


class LatencyConstants(SpecModel):
    """Latencies that NCCL's tuner uses, the same for all GPU generations."""

    ring_base: ByProtocol
    """Start of a ring or broadcast."""
    tree_base: ByProtocol
    """Start of a tree."""
    ring_nvlink_hop: ByProtocol
    """One step of a ring over NVLink."""
    tree_nvlink_hop: ByProtocol
    """One step of a tree's chain over NVLink."""
    ring_network_hop: ByProtocol
    """One step of a ring between nodes."""
    tree_network_hop: ByProtocol
    """One step of a tree between nodes; also of a ring with one GPU in each node."""
    network_post: ByProtocol
    """Posting to the NIC: no step of a ring over nodes is shorter."""
    nvls: Constant
    """One reduction and multicast in the NVSwitches."""
    nvls_tree_network_hop: Constant
    """One step between nodes of a tree that reduces in the NVSwitches."""
    nvls_reduction_hop: Constant
    """The reduction in the switches between nodes, under reduction in the NVSwitches."""
    collnet_nvlink_hop: Constant
    """The exchange over NVLink before and after a reduction in the network."""
    collnet_arity: Constant
    """What each peer of that exchange adds."""
    collnet_reduction_hop: Constant
    """The reduction in the switches between nodes, after an exchange."""
    collnet_chain_nvlink_hop: Constant
    """One step of a chain over NVLink before and after a reduction in the network."""
    collnet_chain_reduction_hop: Constant
    """The reduction in the switches between nodes, after a chain."""
    pat_base: Constant
    """Start of a PAT (parallel aggregated trees)."""
    pat_network_hop: Constant
    """Each of its steps, whose number grows with the logarithm of the nodes."""
    pat_rank: Constant
    """What each rank adds to it."""
    network_path_included: Constant
    """Path latency of NIC, one leaf and NIC that the network hops already hold; longer paths add the difference."""


class ProtocolConstants(SpecModel):
    """Protocols, chunks and pipelines of NCCL, the same for all GPU generations."""

    payload_fraction: ByProtocol
    """Payload in each byte that the protocol stores."""
    slice_size: ByProtocol
    """Largest piece of a ring that is passed on at once, per channel."""
    tuner_margin: Constant
    """Share of a graph's bandwidth that the tuner grants LL128 rings and trees."""
    tree_ll_fraction: Constant
    """Share of a Simple tree's rate that LL reaches."""
    tree_ll128_fraction: ByNodes
    """The same for LL128."""
    tree_chunk: ByProtocol
    """Largest piece of a tree that is passed on at once, per channel."""
    threads: ByProtocol
    """Threads of a channel."""
    bytes_per_thread: ByProtocol
    """Bytes that a thread must have before NCCL spreads a collective over one more channel; a ring's LL times ranks."""
    line_batch: ByProtocol
    """Piece that a channel passes on at once; nothing under Simple, which passes slices."""
    nvls_fill_share: Constant
    """An in-switch pipeline is never filled by more than this share of the size."""
    nvls_stages: Constant
    """Stages of the in-switch pipeline inside one node that must fill."""
    nvls_tree_stages: Constant
    """The same for a tree that reduces in the NVSwitches."""
    nvls_chunk: Table
    """Piece of an in-switch collective, per channel and head, smallest first."""
    nvls_chunk_rounds: Table
    """Rounds of the next larger piece from which NCCL takes it, one number fewer than pieces."""
    tree_correction_ll: Table
    """Share of its bandwidth that an LL tree reaches, for 64 B, 128 B, …"""
    tree_correction_ll128: Table
    """The same for LL128."""
    tree_correction_simple: Table
    """The same for Simple."""
    tree_correction_start: Constant
    """Size of the first entry of the three tables."""
    pat_efficiency: Constant
    """Share of a ring's rate that parallel aggregated trees reach."""
    ring_many_nodes_latency: Constant
    """Factor on the latency of a Simple ring over several nodes, when choosing."""


class InNetworkConstants(SpecModel):
    """Reduction in the switches between nodes."""

    efficiency: Constant
    """Payload per wire byte of a reduction tree."""
    tuner_gather_share: Constant
    """Share of the NICs' rate that the tuner grants a gather or scatter."""
    stages: Constant
    """Stages of the pipeline that must fill."""
    chunk: Table
    """Piece of an exchange, per channel and head, smallest first."""
    chunk_rounds: Table
    """Rounds of the next larger piece from which NCCL takes it, one number fewer than pieces."""
    chain_chunk: Constant
    """Piece of a chain, per channel."""


class HarnessConstants(SpecModel):
    """What a benchmark's way of launching adds to every call."""

    multi_process: Constant
    """One process for each GPU."""
    single_process: Constant
    """One process that drives all GPUs."""
    torch: Constant
    """torch.distributed around each call."""
    unknown: Constant
    """Not stated."""


class LinkConstants(SpecModel):
    """Payload per wire byte of each class of link."""

    nvlink: Constant
    """GPU to NVSwitch."""
    gpu_nic: Constant
    """GPU to NIC."""
    network: Constant
    """NIC to leaf and everything behind it."""


class SymmetricLatency(SpecModel):
    """Base latency of one operation by symmetric-memory kernels."""

    ll: Constant
    """Low-latency kernels."""
    simple: Constant
    """The others."""


class SymmetricConstants(SpecModel):
    """Kernels for buffers that lie at the same address of all ranks of one NVLink domain."""

    all_reduce: SymmetricLatency
    """Latency of all-reduce."""
    all_gather: SymmetricLatency
    """Latency of all-gather."""
    reduce_scatter: SymmetricLatency
    """Latency of reduce-scatter."""
    peak: Constant
    """Largest bus bandwidth of a rank."""
    reducing_peak: Constant
    """The same where the NVSwitches reduce and multicast."""


class GenerationConstants(SpecModel):
    """What differs between generations of GPUs."""

    gpus: tuple[str, ...] = ()
    """GPU parts whose own generation this record overrides, such as those with a Grace host."""
    link_efficiency: LinkConstants
    """Payload per wire byte."""
    latency_scale: ByProtocol
    """Measured over tuner latency inside a node."""
    network_latency_scale: ByProtocol
    """Measured over tuner latency of hops between nodes."""
    gather_hop_scale: ByProtocol
    """Measured over tuner hop of all-gather, reduce-scatter and broadcast rings inside a node."""
    gather_efficiency: Constant
    """Bandwidth of an all-gather ring over that of an all-reduce ring, both over NVLink."""
    ll_efficiency: Constant
    """Measured over tuner bandwidth of LL."""
    ll_channel_rate: Constant
    """Rate of one LL channel."""
    tuner_nvlink_fraction: Constant
    """Share of the NVLink wire that the tuner's search starts from."""
    tuner_nvls_efficiency: Constant | None
    """The tuner's own efficiency of in-switch reduction; absent where the switches cannot reduce."""
    tuner_collnet_efficiency: Constant
    """The tuner's own efficiency of an exchange around a reduction in the network."""
    tuner_head_speed_max: Constant
    """Largest speed that the search gives one head of an in-switch collective."""
    nvls_link_efficiency: Constant | None
    """Payload per wire byte of in-switch reduction in domains of eight."""
    nvls_large_domain_efficiency: Constant | None
    """The same for 72 GPUs; between, it falls with the logarithm of the size."""
    nvls_channels: Constant
    """Channels of an in-switch collective."""
    nvls_round_latency: Constant
    """Synchronisation for each round of chunks of an in-switch collective."""
    nvls_tree_channels: Constant
    """Channels of a tree that reduces in the NVSwitches."""
    nvls_tree_chunk: Table | None
    """Its piece, per channel and head, smallest first, taken as ``nvls_chunk``."""
    ring_channels: Constant
    """Channels of a ring inside one node."""
    ll_max: ByNodes
    """Bus bandwidth of LL, all channels together."""
    ring_ll128_max: ByNodes
    """Bus bandwidth of an LL128 ring, per channel."""
    tree_ll128_max: ByNodes
    """Bus bandwidth of an LL128 tree, per channel."""
    tree_max: ByNodes
    """Bus bandwidth of a Simple tree, per channel."""
    nvls_tree_max: ByNodes | None
    """Bus bandwidth of a tree that reduces in the NVSwitches, per head."""
    symmetric: SymmetricConstants | None = None
    """Symmetric-memory kernels; absent where NCCL has none."""
    all_to_all_efficiency: Constant
    """Share of the link payload rate that pairwise all-to-all reaches."""


class TransportConstants(SpecModel):
    """What a network adds to InfiniBand; for machines known by name of their network only."""

    latency: Constant
    """Added to each way between nodes."""
    efficiency: Constant
    """Payload per wire byte, in place of the GPU generation's."""
    protocols: tuple[Protocol, ...] = PROTOCOLS
    """Protocols that it can run: LL and LL128 need bytes to arrive in order."""


class CollectivesPart(SpecModel):
    """The whole file."""

    nccl_version: str
    """Version whose tuner the constants come from."""
    latency: LatencyConstants
    """Latencies."""
    protocols: ProtocolConstants
    """Protocols and pipelines."""
    in_network: InNetworkConstants
    """Reduction in the switches between nodes."""
    harness: HarnessConstants
    """Launch overhead of benchmarks."""
    transports: dict[str, TransportConstants]
    """Networks by name."""
    generations: dict[str, GenerationConstants]
    """One record for each generation."""


class CollectiveConstants(SpecModel):
    """All constants that one machine needs."""

    generation: str
    """Key of the generation."""
    nccl_version: str
    """Version whose tuner the constants come from."""
    latency: LatencyConstants
    """Latencies."""
    protocols: ProtocolConstants
    """Protocols and pipelines."""
    in_network: InNetworkConstants
    """Reduction in the switches between nodes."""
    harness: HarnessConstants
    """Launch overhead of benchmarks."""
    gpu: GenerationConstants
    """What the generation sets."""


@cache
def load_collectives(generation: str, gpu: str = "") -> CollectiveConstants:
    """Return the constants for a GPU.

    Parameters
    ----------
    generation
        Key of ``generations`` in the shipped file, as GPU parts have it.
    gpu
        Name of the GPU part; a record that lists it goes before its generation.

    Raises
    ------
    SpecError
        If the file is not valid or has no such generation.
    """
    part = _load()
    generation = next((name for name, record in part.generations.items() if gpu in record.gpus), generation)
    record = part.generations.get(generation)
    if record is None:
        raise SpecError(
            Problem(
                message="no collective constants for this GPU generation",
                found=f'"{generation}"',
                allowed=", ".join(part.generations),
            )
        )
    return CollectiveConstants(
        generation=generation,
        nccl_version=part.nccl_version,
        latency=part.latency,
        protocols=part.protocols,
        in_network=part.in_network,
        harness=part.harness,
        gpu=record,
    )


def transport(name: str) -> TransportConstants:
    """Return what a kind of network adds; a network without a record of its own counts as InfiniBand."""
    known = _load().transports
    return known.get(name, known[_PLAIN_TRANSPORT])


@cache
def _load() -> CollectivesPart:
    return build(read_yaml(find("part", "collectives")), CollectivesPart)
