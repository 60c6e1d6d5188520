"""Estimators: arrays in, a fitted model out. They know nothing of bandits."""
