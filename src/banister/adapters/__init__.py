"""Bridges to other libraries: coba's experiments, obp's simulation, Gymnasium's environments, VW's logs.

Nothing else in the package imports this room, and each file imports its library only where it must.
"""
