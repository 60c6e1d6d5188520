"""One trial, many trials, and the rows that they leave."""
