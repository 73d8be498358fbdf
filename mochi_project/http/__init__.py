"""Provides common HTTP features: health, docs, OpenAPI, strict and large JSON."""
