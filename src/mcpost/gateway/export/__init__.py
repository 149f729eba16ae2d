"""A policy as the configuration of another engine, with the same verdicts.

What an engine cannot express is an error that names the rule, never a silent gap.
"""
