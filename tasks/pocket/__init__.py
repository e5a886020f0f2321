"""How the embedded model is made: a few minutes of pre-training on what a novice would know.

`python -m tasks.pocket` writes `engine/pocket` again, byte for byte on the same kind of machine. The corpus
(`corpus`) is every position of three games with the novice's exact move probabilities, and questions that can
only be answered by reading the position; `tokenizer` spells it in bytes; `training` fits a tiny Llama to it;
`strength` says how well that plays.
"""
