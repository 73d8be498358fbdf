"""Serves what all routes share: health, docs, OpenAPI, strict and large JSON."""
