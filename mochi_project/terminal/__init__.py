"""Holds conversations in a terminal: shows turns, asks for approvals, stops on CTRL-C."""
