"""Extends uvicorn's HTTP protocol: bounds, deadlines, early writes."""
