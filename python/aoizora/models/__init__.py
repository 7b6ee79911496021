"""Models that AoiZora can plan, written in plain JAX with logical axis names."""
