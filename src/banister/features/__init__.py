"""Raw contexts to feature rows: named arms, items of a catalogue, and the frames they come in."""
