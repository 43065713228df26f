import atexit
import contextlib
import gc
import os
import shutil
import signal
import tempfile
import threading
from importlib.metadata import version

# With GEONH_TESTS_XLA=1 the tests run on JAX as users have it, more slowly: XLA's optimiser on, and single operations
# outside of programs compiled, not computed in NumPy.
AS_USERS = os.environ.get("GEONH_TESTS_XLA") == "1"

# Before JAX is imported. XLA is the reference here, and its optimiser would be most of the time.
if not AS_USERS:
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        * version("jaxlib").startswith("0.10."),  # a flag that a version does not know ends the process
    )

COMPILED = "JAX_COMPILATION_CACHE_DIR"
if COMPILED not in os.environ:  # a cache shared by the workers
    os.environ[COMPILED] = tempfile.mkdtemp(prefix="geonh-tests-")
    atexit.register(shutil.rmtree, os.environ[COMPILED], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

# Settings of glibc, read when a worker starts: freed memory returns to the system, and threads share one arena.
os.environ.setdefault("MALLOC_ARENA_MAX", "1")
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**16))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**17))

# Matrices are small here, and threads of two workers on two cores would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax  # noqa: E402
import pytest  # noqa: E402
from eager import compute_in_numpy  # noqa: E402
from hypothesis import Phase, settings  # noqa: E402

if not AS_USERS:
    compute_in_numpy()

# Failing examples are shrunk; the phase that explains them would trace every line of Python in all examples.
settings.register_profile("geonh", phases=[phase for phase in Phase if phase is not Phase.explain])
settings.load_profile("geonh")


def pytest_configure(config):
    gc.set_threshold(50_000, 20, 50)  # else traversing all objects of JAX takes a twentieth of the time
    # A shell that starts the tests in the background ignores Ctrl-C, and so would all subprocesses.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "user_precision: run with the precision of JAX as a user has it, float32")


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(config, items):
    """Mark the members of a parametrised test ``slow`` that its mark ``quick`` does not name."""
    quick = {}
    for item in items:
        if mark := item.get_closest_marker("quick"):
            test = item.nodeid.split("[")[0]
            wanted = {name.encode("ascii", "backslashreplace").decode() for name in mark.args}  # as pytest writes them
            names, members = quick.setdefault(test, (wanted, set()))
            members.add(item.callspec.id)
            if item.callspec.id not in names:
                item.add_marker("slow")
    whole = not any("[" in argument for argument in config.args)  # else some members may not be collected
    for test, (names, members) in quick.items():
        if whole and not names <= members:
            raise pytest.UsageError(f"{test} has no member {sorted(names - members)}; it has {sorted(members)}")


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # half a million objects that live as long as the process


@pytest.fixture(autouse=True)
def double_precision(request):
    """Tests compute in float64, without touching the configuration of JAX, unless marked ``user_precision``."""
    as_is = request.node.get_closest_marker("user_precision")
    with contextlib.nullcontext() if as_is else jax.enable_x64(True):
        yield
