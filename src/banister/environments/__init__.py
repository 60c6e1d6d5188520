"""Worlds to try policies in: simulated ones and MovieLens. Each knows the truth, to score against."""
