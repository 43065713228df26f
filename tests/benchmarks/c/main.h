/* main() of a system's program; see common.h. */
static double numbers[64];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  long n = atol(argv[1]), repeats = atol(argv[2]), members = atol(argv[3]), blocks = (members + LANES - 1) / LANES;
  for (int i = 0; i < 1 + PARAMETERS; i++)
    if (scanf("%lf", &numbers[i]) != 1) return 3;
  V *start = aligned_alloc(64, (blocks * START * sizeof(V) + 63) / 64 * 64);
  V *out = aligned_alloc(64, (blocks * n * ROW * sizeof(V) + 63) / 64 * 64);
  if (!start || !out) return 4;
  for (long j = 0; j < blocks * LANES; j++)
    for (int i = 0; i < START; i++) {
      double x;
      if (j < members) {
        if (scanf("%lf", &x) != 1) return 3;
      } else {
        x = LANE(&start[(members - 1) / LANES * START + i], (members - 1) % LANES);
      }
      LANE(&start[j / LANES * START + i], j % LANES) = x;
    }
  double best = INFINITY, whole = now();
  for (long r = 0; r < repeats; r++) {
    double begin = now();
    for (long b = 0; b < blocks; b++) {
      V state[START];
      memcpy(state, start + b * START, sizeof state);
      run(n, numbers[0], numbers + 1, state, out + b * n * ROW);
    }
    double took = (now() - begin) / n / members;
    best = took < best ? took : best;
  }
  whole = (now() - whole) / n / members / repeats;
  printf("%.17g %.17g\n", best, whole);
  for (long j = 0; j < members; j++, puts(""))
    for (int i = 0; i < ROW; i++) printf("%.17g ", LANE(&out[(j / LANES * n + n - 1) * ROW + i], j % LANES));
  return 0;
}
