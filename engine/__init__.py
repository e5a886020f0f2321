"""The self-play engine: what a task's author needs.

Importing this brings in neither MLX nor a model; those load when a run starts.
"""

from engine.arena import Arena
from engine.artifacts import Artifact, ArtifactStore
from engine.credit import ConstantCredit, CreditAssigner, GRPOCredit, RAECredit
from engine.episode import ChatEpisode, Episode, EpisodeState, SingleTurnEpisode
from engine.games import Game, GameEpisode, read_move
from engine.options import Between, Count, Share
from engine.rubric import RewardFunction, Rubric
from engine.task import GameTask, Task, TaskError
from engine.trainer import Trainer, simple_training_loop
from engine.types import (
    BASE,
    POLICY,
    Completion,
    Credit,
    EpisodeRequest,
    GenerateResult,
    Message,
    Role,
    Rollout,
    Sampling,
    StopReason,
    TrainingRecord,
    Turn,
)

__all__ = [
    "BASE",
    "POLICY",
    "Arena",
    "Artifact",
    "ArtifactStore",
    "Between",
    "ChatEpisode",
    "Completion",
    "ConstantCredit",
    "Count",
    "Credit",
    "CreditAssigner",
    "Episode",
    "EpisodeRequest",
    "EpisodeState",
    "GRPOCredit",
    "Game",
    "GameEpisode",
    "GameTask",
    "GenerateResult",
    "Message",
    "RAECredit",
    "RewardFunction",
    "Role",
    "Rollout",
    "Rubric",
    "Sampling",
    "Share",
    "SingleTurnEpisode",
    "StopReason",
    "Task",
    "TaskError",
    "Trainer",
    "TrainingRecord",
    "Turn",
    "read_move",
    "simple_training_loop",
]
