"""The self-play engine: what a task's author needs.

Importing this brings in neither MLX nor a model; those load when a run starts.
"""

from engine.arena import Arena
from engine.artifacts import Artifact, ArtifactStore
from engine.credit import ConstantCredit, CreditAssigner, GRPOCredit, RAECredit
from engine.data.datasets import Epochs, Example, Parts, read_parts
from engine.data.datasets import read as read_examples
from engine.data.documents import Documents, Passage
from engine.data.lines import hold_out, read_lines
from engine.data.tables import is_on_hub
from engine.episode import ChatEpisode, Episode, EpisodeState, SingleTurnEpisode
from engine.games import Game, GameEpisode, from_beginnings, random_move, read_move
from engine.matches import mean, seats_in_turn, standing
from engine.options import Between, Count, Share
from engine.ratings import Rating, bradley_terry, elo, elo_gain
from engine.rewards.answers import read_element, read_json, read_number
from engine.rewards.judge import Judge, Judgement, quoted
from engine.rewards.named import REWARDS, reward
from engine.rewards.proposing import (
    PROPOSER_REWARDS,
    ProposerReward,
    absolute_zero,
    agreement,
    bug_injection,
    goldilocks,
    majority,
    r_zero,
    repetition_penalty,
    search,
    spice,
)
from engine.rubric import RewardFunction, Rubric
from engine.sandbox import Call, Finished, Limits, Outcome, SandboxError, call_python, run_python, same_value
from engine.task import GameTask, Task, TaskError, load_task
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
    "PROPOSER_REWARDS",
    "REWARDS",
    "Arena",
    "Artifact",
    "ArtifactStore",
    "Between",
    "Call",
    "ChatEpisode",
    "Completion",
    "ConstantCredit",
    "Count",
    "Credit",
    "CreditAssigner",
    "Documents",
    "Episode",
    "EpisodeRequest",
    "EpisodeState",
    "Epochs",
    "Example",
    "Finished",
    "GRPOCredit",
    "Game",
    "GameEpisode",
    "GameTask",
    "GenerateResult",
    "Judge",
    "Judgement",
    "Limits",
    "Message",
    "Outcome",
    "Parts",
    "Passage",
    "ProposerReward",
    "RAECredit",
    "Rating",
    "RewardFunction",
    "Role",
    "Rollout",
    "Rubric",
    "Sampling",
    "SandboxError",
    "Share",
    "SingleTurnEpisode",
    "StopReason",
    "Task",
    "TaskError",
    "Trainer",
    "TrainingRecord",
    "Turn",
    "absolute_zero",
    "agreement",
    "bradley_terry",
    "bug_injection",
    "call_python",
    "elo",
    "elo_gain",
    "from_beginnings",
    "goldilocks",
    "hold_out",
    "is_on_hub",
    "load_task",
    "majority",
    "mean",
    "quoted",
    "r_zero",
    "random_move",
    "read_element",
    "read_examples",
    "read_json",
    "read_lines",
    "read_move",
    "read_number",
    "read_parts",
    "repetition_penalty",
    "reward",
    "run_python",
    "same_value",
    "search",
    "seats_in_turn",
    "simple_training_loop",
    "spice",
    "standing",
]
