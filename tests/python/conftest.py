"""Every Python test runs on 16 virtual CPU devices; must be set before JAX loads."""

import importlib.util
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    # Compiling dominates these tests and nothing here is timed.
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=16".strip()
# The tests also run from a checkout that is not installed; an installed package has the C++ core.
if importlib.util.find_spec("aoizora") is None:
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))
