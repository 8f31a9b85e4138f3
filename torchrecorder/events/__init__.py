"""Events of a run: immutable data without references to torch.

Instruments write events, and `build` turns them into a recording. Most events are rows of the
recording: those in `torchrecorder.graph.nodes`, and some of those here. The others add facts to a
row. Ids and enumerations (kinds and roles) are defined here too. Events are named tuples or
structs, because these are the fastest to create.
"""

from __future__ import annotations

from torchrecorder.events.compiler import (
    COMPILED_GRAPH, FUSED_KERNEL, UNMATCHED, CompiledGraph, FusedKernel, GraphBreak, UnmatchedCall,
)
from torchrecorder.events.processes import (
    GRADIENT_MESSAGE, JOINED, MESSAGE, POINT_TO_POINT, Communication, Mesh, Rank, RankGroup, Shard,
)
from torchrecorder.events.run import (
    BYTES_ALLOCATED, BYTES_FREED, BYTES_OF_GRADIENT, BYTES_PEAK, BYTES_SAVED, FLOPS_BACKWARD,
    FLOPS_FORWARD, FLOPS_PROFILED, KERNELS, OF_CLASS, SECONDS_OF_GAPS, SECONDS_OF_KERNELS,
    SECONDS_ON_CPU, SECONDS_ON_DEVICE, Allocation, FunctionCall, Gradient, GradNodeMade, GradSwitch,
    Lost, Measured, ParameterPart, ScopeLeft, Statistics, StillHeld,
)
from torchrecorder.events.vocabulary import (
    CALLED, CONVERTED, FUNCTION, GRAD_SUFFIX, HOOK_REGISTRATIONS, MODES, NO_STORAGE, OF_WEIGHTS,
    STORED, SUM, TRAINING, TRANSPARENT, UNFINISHED, FunctionId, GradEdge, GradId, ModuleId, NodeId,
    OpId, OpKind, Role, ScopeId, ScopeKind, Slot, SourceLine, ValueId, names_gradient, new_tuple,
)

__all__ = [
    "BYTES_ALLOCATED", "BYTES_FREED", "BYTES_OF_GRADIENT", "BYTES_PEAK", "BYTES_SAVED", "CALLED",
    "COMPILED_GRAPH", "CONVERTED", "FLOPS_BACKWARD", "FLOPS_FORWARD", "FLOPS_PROFILED", "FUNCTION",
    "FUSED_KERNEL", "GRADIENT_MESSAGE", "GRAD_SUFFIX", "HOOK_REGISTRATIONS", "JOINED", "KERNELS",
    "MESSAGE", "MODES", "NO_STORAGE", "OF_CLASS", "OF_WEIGHTS", "POINT_TO_POINT", "SECONDS_OF_GAPS",
    "SECONDS_OF_KERNELS", "SECONDS_ON_CPU", "SECONDS_ON_DEVICE", "STORED", "SUM", "TRAINING",
    "TRANSPARENT", "UNFINISHED", "UNMATCHED",
    "Allocation", "Communication", "CompiledGraph", "FunctionCall", "FunctionId", "FusedKernel",
    "GradEdge", "GradId", "GradNodeMade", "GradSwitch", "Gradient", "GraphBreak", "Lost",
    "Measured", "Mesh", "ModuleId", "NodeId", "OpId", "OpKind", "ParameterPart", "Rank",
    "RankGroup", "Role", "ScopeId", "ScopeKind", "ScopeLeft", "Shard", "Slot", "SourceLine",
    "Statistics", "StillHeld", "UnmatchedCall", "ValueId", "names_gradient", "new_tuple",
]
