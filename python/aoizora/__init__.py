"""AoiZora: sharding and chip placement of diffusion transformers on TPU slices."""
