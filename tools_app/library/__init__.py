"""Finds, describes and runs tools in the calling process, for programs."""
