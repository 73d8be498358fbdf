"""Agents: models with tools and a memory of their own, that plan and then act."""
