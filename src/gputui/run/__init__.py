"""Running NVIDIA's profilers: what is installed and allowed, what to run, running it, and what came of it.

Knows no screen. Data flows ``probe`` → ``doctor``; ``plan`` → ``process`` → ``folder``; ``session`` leads through it.
"""
