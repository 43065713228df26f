"""The stack that a header states is enough, and not far too much: measured by a pattern that calls overwrite."""

import re
import shutil
import subprocess

import pytest

import geonh as gn

MEASURE = """
#include <stdio.h>
#define main example
#include "example.c"
#undef main
#define SIZE 4000000

static __attribute__((noinline)) void paint(void) {
    volatile char a[SIZE];
    for (long i = 0; i < SIZE; i++) a[i] = 0x5a;
}

static __attribute__((noinline)) long used(void) {
    volatile char a[SIZE];
    long i = 0;
    while (i < SIZE && a[i] == 0x5a) i++;
    return SIZE - i;
}

int main(void) {
    char *arguments[] = {"example", "20"};
    printf("%f", 1.5);
    paint();
    example(2, arguments);
    printf("USED %ld", used());
    return 0;
}
"""


@pytest.mark.quick("suslov-gauss4")
@pytest.mark.parametrize(("name", "method"), [("suslov", "gauss4"), ("chaplygin-sphere", "gni")])
def test_the_stack_of_the_header_is_enough_and_not_far_too_much(name, method, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    folder = gn.build(system, method, tmp_path / "robot", xi0=start.xi0, g0=start.g0, dt=entry.dt).folder
    stated = 1024 * int(re.search(r"(\d+) kB of stack", (folder / "robot.h").read_text(encoding="utf-8"))[1])
    (folder / "measure.c").write_text(MEASURE, encoding="utf-8")
    command = ["cc", "-O0", "-o", "measure", "measure.c", "robot.o", "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["./measure"], cwd=folder, check=True, capture_output=True, text=True)
    used = int(re.search(r"USED (\d+)", done.stdout)[1])
    assert used - 4096 < stated < 4 * used  # with what the example and printf use
