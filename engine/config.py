"""A run's configuration: what a preset's TOML file may say, with bounds and a sentence on each key.

The same schema checks presets, `--set` and edits, and is what a form in the app is made from.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class ModelConfig(Section):
    source: str = Field("pocket", description="'pocket', a hub id, or a local folder in MLX format.")
    context: int = Field(4096, ge=16, description="Longest prompt and completion together, in tokens.")
    prefill_tokens: int = Field(8192, ge=16, description="Most prompt tokens computed in one tick.")
    rows: int = Field(128, ge=1, le=4096, description="Most completions decoded at once.")


class TaskConfig(Section):
    name: str = Field(description="A built-in task, or './file.py:ClassName'.")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the task.")


class RoleConfig(Section):
    prompt: str | None = Field(None, description="The role's system prompt; the task's own if left out.")
    temperature: float | None = Field(None, ge=0.0, le=5.0, description="1 samples as the model thinks.")
    max_tokens: int | None = Field(None, ge=1, description="Longest reply, in tokens.")
    top_p: float | None = Field(None, gt=0.0, le=1.0, description="Keep the likeliest tokens of this mass.")
    top_k: int | None = Field(None, ge=0, description="Keep this many likeliest tokens; 0 keeps all.")
    min_p: float | None = Field(None, ge=0.0, le=1.0, description="Drop tokens below this share of the top.")


class RunConfig(Section):
    steps: int = Field(100, ge=1, description="Optimiser steps until the run stops by itself.")
    seed: int = Field(0, ge=0, description="Fixes deals, openings and every sampled token.")
    episodes_per_step: int = Field(64, ge=1, description="Top-level episodes a step learns from.")
    max_staleness: int = Field(
        0, ge=0, description="How many versions behind a rollout may be; 0 plays and learns in turn."
    )


class LoRAConfig(Section):
    rank: int = Field(16, ge=1, le=512, description="Width of the adapter.")
    scale: float = Field(2.0, gt=0.0, description="What the adapter's output is multiplied by (alpha / rank).")
    layers: list[str] = Field(
        default_factory=list, description="Names of the linear layers adapted, such as 'q_proj'; empty for all."
    )


class TrainConfig(Section):
    learning_rate: float = Field(1e-3, gt=0.0, le=1.0, description="AdamW's step size.")
    warmup: int = Field(5, ge=0, description="Steps over which the learning rate rises from a tenth.")
    weight_decay: float = Field(0.0, ge=0.0, description="AdamW's decay of the adapter.")
    betas: tuple[Fraction, Fraction] = Field((0.9, 0.99), description="AdamW's moments.")
    grad_clip: float = Field(1.0, gt=0.0, description="Largest norm of a step's gradient.")
    clip_low: Fraction = Field(0.2, description="PPO: how far the ratio may fall below 1.")
    clip_high: float = Field(0.2, ge=0.0, description="PPO: how far the ratio may rise above 1.")
    normaliser: Literal["dapo", "grpo", "dr_grpo"] = Field(
        "dapo", description="What the summed loss is divided by: see docs/learning.md."
    )
    kl: float = Field(0.0, ge=0.0, description="Weight of the divergence from the base model.")
    kl_kind: Literal["k3", "forward"] = Field(
        "k3", description="'k3' estimates KL(policy‖base) on sampled tokens; 'forward' is KL(base‖policy), exact."
    )
    entropy: float = Field(0.0, ge=0.0, description="Weight of the entropy bonus.")
    minibatches: int = Field(1, ge=1, description="Optimiser updates one step's rollouts are split into.")
    microbatch_tokens: int = Field(16384, ge=64, description="Most padded tokens in one backward pass.")


class CreditConfig(Section):
    kind: Literal["rae", "grpo", "constant"] = Field("rae", description="How rewards become advantages.")
    decay: Fraction = Field(0.95, description="RAE: how slowly a baseline follows the rewards.")
    normalise: bool = Field(False, description="GRPO: divide by the group's standard deviation.")
    discount: Fraction = Field(1.0, description="Per turn of the role from the end of the episode.")


class EvalConfig(Section):
    every: int = Field(10, ge=0, description="Steps between evaluations; 0 only before and after.")
    episodes: int = Field(200, ge=2, description="Episodes against each opponent.")
    metric: str = Field("", description="The metric that names the best checkpoint; empty keeps none.")
    goal: Literal["max", "min"] = Field("max", description="Whether more or less of it is better.")


class CheckpointConfig(Section):
    every: int = Field(1, ge=1, description="Steps between automatic checkpoints.")
    keep: int = Field(2, ge=1, description="Automatic checkpoints kept; best, manual and final ones always are.")


class Config(Section):
    """Everything a run is made of."""

    title: str = Field("", description="What Home shows.")
    teaches: str = Field("", description="One sentence: what there is to see.")
    task: TaskConfig
    model: ModelConfig = ModelConfig()
    roles: dict[str, RoleConfig] = Field(default_factory=dict)
    run: RunConfig = RunConfig()
    lora: LoRAConfig = LoRAConfig()
    train: TrainConfig = TrainConfig()
    credit: CreditConfig = CreditConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
