"""An ensemble of robot on a GPU, by NVIDIA's driver and NumPy alone: python example.py [members] [steps].

Kernels of robot.ptx: robot_start_members, robot_advance_members, robot_observe_members, robot_project_members. Each
takes its vectors with their strides, the number of doubles from member to member (0 for a vector that all share), then
an int for the status of each member, and the number of members. robot.json has sizes, names and values by default.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
THREADS = 64


class Device:
    """The first GPU, and the kernels of a file in PTX."""

    def __init__(self, file):
        try:
            self.cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        except OSError as reason:
            sys.exit(f"there is no driver of NVIDIA here: {reason}")
        number, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(number), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(self.module), file.read_bytes() + b"\0")

    def call(self, function, *arguments):
        if status := getattr(self.cuda, function)(*arguments):
            raise RuntimeError(f"{function} fails with CUDA's error {status}")

    def array(self, values):
        """Address of a copy on the GPU."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(values.nbytes, 8)))
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes))
        return address

    def fetch(self, address, values):
        """Copy back into an array."""
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(values.ctypes.data), address, ctypes.c_size_t(values.nbytes))
        return values

    def run(self, kernel, vectors, statuses, members, *more):
        """Run a kernel; vectors are pairs of an address and a stride."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, kernel.encode())
        values = [x for address, stride in vectors for x in (address, ctypes.c_int64(stride))]
        values += [statuses, *(ctypes.c_int32(x) for x in (members, *more))]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(x) for x in values))
        blocks = -(-members // THREADS)
        self.call("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
        self.call("cuCtxSynchronize")


def ensemble(velocities, n_steps):
    """Observables of runs that start with these velocities, shape=[members, n], and their statuses."""
    data = json.loads((HERE / "robot.json").read_text(encoding="utf-8"))
    sizes, members, device = data["sizes"], len(velocities), Device(HERE / "robot.ptx")
    shared = {key: (device.array(np.array(values, float)), 0) for key, values in data["defaults"].items()}
    observed, failed = np.zeros((members, sizes["observed"])), np.zeros(members, np.int32)
    given = device.array(np.ascontiguousarray(velocities, float)), sizes["velocity"]
    states = device.array(np.zeros((members, sizes["state"]))), sizes["state"]
    seen, statuses = (device.array(observed), sizes["observed"]), device.array(failed)
    both = shared["parameters"], shared["inputs"]
    device.run("robot_start_members", [*both, shared["times"], shared["point"], given, states], statuses, members)
    if not device.fetch(statuses, failed).any():
        device.run("robot_advance_members", [*both, states], statuses, members, n_steps)
        device.fetch(statuses, failed)
    device.run("robot_observe_members", [*both, states, seen], device.array(failed), members)
    return device.fetch(seen[0], observed), failed


if __name__ == "__main__":
    members, n_steps = (int(x) for x in [*sys.argv[1:], "10000", "1000"][:2])
    start = json.loads((HERE / "robot.json").read_text(encoding="utf-8"))["defaults"]["velocity"]
    values, statuses = ensemble(np.linspace(0.9, 1.1, members)[:, None] * np.array(start), n_steps)
    print(f"t = {values[0, 0]:g}, {np.count_nonzero(statuses)} of {members} failed")
    print(values[0])
