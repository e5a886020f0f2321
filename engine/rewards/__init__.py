"""Rewards that tasks share: reading an answer, scoring it by name, judging by a model, paying a proposer."""
