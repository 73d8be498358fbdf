"""Reads conversations of other programs' exports (docs/import.md). Pure: values in, values out."""
