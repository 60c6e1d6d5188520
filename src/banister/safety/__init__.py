"""What may be played: the floor, certificates and gates, and safe exploration."""
