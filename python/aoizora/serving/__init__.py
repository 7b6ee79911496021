"""Plans in use: load a plan file, put its mesh on the devices at hand, hand its rules to a model.

Importing this imports neither JAX nor numpy; only ``Plan.mesh`` and the shardings do.
"""

from aoizora.serving.errors import PlanError
from aoizora.serving.plan import Plan, load

__all__ = ["Plan", "PlanError", "load"]
