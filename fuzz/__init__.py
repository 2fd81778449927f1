"""Fuzzing of everything that reads what others wrote: one target a file, each with an oracle of its own.

python -m fuzz --minutes 24            all targets, coverage-guided (extra `fuzz`)
python -m fuzz --minutes 2 sse token   these only

`tests/fuzz/` runs every target briefly, without coverage, and shows that each finds the faults it is for.
"""
