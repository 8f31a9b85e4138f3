"""Region functions: the functions of PyTorch whose calls are regions, a part of the table."""

from __future__ import annotations

from torchrecorder.capture.internals.trials import Internal

OPTIMIZER_FRAMES = Internal(
    "frames of an optimizer's step",
    "regions of optimizers",
    "operations of optimizers are in no region",
    ("torch.optim.Optimizer.profile_hook_step.__code__",),
)
CLIPPING = Internal(
    "functions that clip gradients",
    "regions of clipping",
    "operations of clipping are in no region",
    ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"),
)
AVERAGING = Internal(
    "methods of averaged models",
    "regions of averaging",
    "operations that average weights are in no region",
    ("torch.optim.swa_utils.AveragedModel.update_parameters",),
)
GRADIENT_SCALERS = Internal(
    "methods of gradient scalers",
    "regions of gradient scalers",
    "operations of gradient scalers are in no region",
    tuple(f"torch.amp.GradScaler.{name}" for name in ("scale", "unscale_", "update")),
)
DATA_LOADERS = Internal(
    "methods of data loaders",
    "regions of data loaders",
    "operations of data loaders are in no region",
    tuple(f"torch.utils.data.{name}"
          for name in ("DataLoader.__iter__", "dataloader._BaseDataLoaderIter.__next__")),
)
PIPELINES = Internal(
    "methods of pipelines",
    "regions of the setup of pipelines before the first micro-batch, of gradient scaling, and of "
    "backward passes for inputs or weights alone",
    "these operations are in no region, and figures of joined runs show them",
    tuple(f"torch.distributed.pipelining.{name}" for name in (
        "stage._PipelineStageBase.scale_grads", "stage.stage_backward_input",
        "stage.stage_backward_weight", "schedules.PipelineScheduleSingle._initialize_stage",
        "schedules.PipelineScheduleMulti._initialize_stages",
    )),
    since="2.7",
)
SHARDING_NAMES = {
    "_lazy_init": "lazy_init",
    **dict.fromkeys(("_pre_forward", "_unshard", "unshard", "wait_for_unshard"), "unshard"),
    **dict.fromkeys(("_post_forward", "_reshard", "reshard"), "reshard"),
}
"""The functions of FSDP that prepare, gather or free parameters, and the names of their regions."""

SHARDING = Internal(
    "functions of FSDP",
    "regions in which FSDP gathers parameters before the forward of a module, or frees them after",
    "these operations are in no region, and figures show them beside those of the model",
    tuple(f"torch.distributed.fsdp.{name}" for name in (
        *(f"_runtime_utils.{name}"
          for name in ("_lazy_init", "_pre_forward", "_post_forward", "_unshard", "_reshard")),
        *(f"_fully_shard._fsdp_state.FSDPState.{name}"
          for name in ("_pre_forward", "_post_forward")),
        *(f"_fully_shard._fsdp_param_group.FSDPParamGroup.{name}"
          for name in ("unshard", "wait_for_unshard", "reshard")),
    )),
)
INPUT_CASTS = Internal(
    "functions of FSDP that cast the inputs and outputs of modules",
    "regions of FSDP without these casts",
    "inputs of modules of mixed precision pass through the region",
    ("torch.distributed.utils._cast_forward_inputs",
     "torch.distributed.fsdp._fully_shard._fsdp_common._cast_fp_tensor"),
)

REGION_FUNCTIONS = (
    OPTIMIZER_FRAMES, CLIPPING, AVERAGING, GRADIENT_SCALERS, DATA_LOADERS, PIPELINES, SHARDING,
    INPUT_CASTS,
)
