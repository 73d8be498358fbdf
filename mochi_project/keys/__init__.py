"""Keeps keys: who sends one acts for an owner, within its scopes (docs/decisions/0206)."""
