"""Families invented after the rules were set, without a look at them."""
