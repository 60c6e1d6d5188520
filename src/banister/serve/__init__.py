"""Banister as a service: decisions and rewards over HTTP, a live page, metrics, and a client."""
