"""Figures and tables from run directories. Nothing here imports an agent."""
