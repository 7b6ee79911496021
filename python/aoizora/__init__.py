"""AoiZora: sharding and chip placement of diffusion transformers on TPU slices.

``aoizora.load("plan.json")`` reads a plan for serving; see docs/serving.md.
"""

from aoizora.serving import Plan, PlanError, load

__all__ = ["Plan", "PlanError", "load"]
