"""Measures what the server does and costs: usage, budgets, metrics and traces.

It observes model calls and turns through the ports of ``models_app.model_calls`` and
``chat.turn.observer``; nothing below ``mochi_project`` imports it.
"""
