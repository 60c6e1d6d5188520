"""The command line: thin over the library. Parse, call, print, exit code."""

from banister.cli.app import main as main
