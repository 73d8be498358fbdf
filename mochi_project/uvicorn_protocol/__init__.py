"""Extends uvicorn's HTTP protocol: bounds and deadlines."""
