"""Results as pages and figures; reads result rows only."""
