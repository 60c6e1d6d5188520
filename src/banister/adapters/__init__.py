"""Bridges to other libraries: coba's experiments, Gymnasium's environments, Vowpal Wabbit's logs.

Nothing else in the package imports this room, and each file imports its library only where it must.
"""
