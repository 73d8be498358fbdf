"""Runs agents: models with tools and sessions of their own, which plan and then act."""
