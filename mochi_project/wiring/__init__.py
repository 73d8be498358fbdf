"""Builds the services from the configuration; opens nothing."""
