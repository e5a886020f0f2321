"""Proofs of elementary algebra, one step a line, checked exactly.

`expressions` reads what a model writes, `steps` says which line follows from which, `problems` makes what is to be
proved.
"""
