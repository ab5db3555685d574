"""Grids of runs: a plan becomes runs, runs become Ray tasks, and what becomes of them is read from run directories."""
