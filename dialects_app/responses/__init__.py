"""Implements ``/v1/responses`` and ``/v1/conversations``: requests, resources, conversions."""
