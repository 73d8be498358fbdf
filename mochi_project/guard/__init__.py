"""Decides before Django whether a request may come in."""
