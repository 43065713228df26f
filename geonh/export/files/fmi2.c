{{shared}}
typedef void (*Logger)(void *, const char *, int, const char *, const char *, ...);
typedef struct { Logger logger; void *allocate, *free, *finished, *environment; } Callbacks;
enum { OK, WARNING, DISCARD, ERROR };
#define INSTANCE Instance *it = c

static int told(Instance *it, int failed) {
  if (failed && it->logger && it->message[0])
    ((Logger)it->logger)(it->environment, it->name, ERROR, "logStatusError", "%s", it->message);
  it->message[0] = 0;
  return failed ? ERROR : OK;
}

const char *fmi2GetTypesPlatform(void) { return "default"; }
const char *fmi2GetVersion(void) { return "2.0"; }
int fmi2SetDebugLogging(void *c, int on, size_t n, const char *const categories[]) { (void)c; (void)on; (void)n; (void)categories; return OK; }
void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources, const Callbacks *functions, int visible, int logging) {
  (void)resources; (void)visible; (void)logging;
  return type == 1 ? made(name, guid, functions->environment, (void *)functions->logger) : NULL;
}
void fmi2FreeInstance(void *c) { free(c); }
int fmi2SetupExperiment(void *c, int has_tolerance, double tolerance, double begin, int has_end, double end) {
  INSTANCE;
  (void)has_tolerance; (void)tolerance; (void)has_end; (void)end;
  it->begin = begin;
  it->started = 0;
  return OK;
}
int fmi2EnterInitializationMode(void *c) { (void)c; return OK; }
int fmi2ExitInitializationMode(void *c) { INSTANCE; return told(it, start(it)); }
int fmi2Terminate(void *c) { (void)c; return OK; }
int fmi2Reset(void *c) { values_by_default(c); return OK; }
int fmi2GetReal(void *c, const unsigned references[], size_t n, double values[]) {
  INSTANCE;
  int failed = 0;
  for (size_t i = 0; i < n; i++) failed |= get(it, references[i], values + i);
  return told(it, failed);
}
int fmi2SetReal(void *c, const unsigned references[], size_t n, const double values[]) {
  INSTANCE;
  int failed = 0;
  for (size_t i = 0; i < n; i++) failed |= set(it, references[i], values[i]);
  return told(it, failed);
}
int fmi2DoStep(void *c, double t, double h, int done) { INSTANCE; (void)t; (void)done; return told(it, go_on(it, h)); }
int fmi2CancelStep(void *c) { (void)c; return ERROR; }
#define NONE(name, type)                                                                          \
  int fmi2Get##name(void *c, const unsigned r[], size_t n, type v[]) { (void)c; (void)r; (void)v; return n ? ERROR : OK; } \
  int fmi2Set##name(void *c, const unsigned r[], size_t n, const type v[]) { (void)c; (void)r; (void)v; return n ? ERROR : OK; }
NONE(Integer, int)
NONE(Boolean, int)
NONE(String, char *)
int fmi2GetFMUstate(void *c, void **state) { (void)c; (void)state; return ERROR; }
int fmi2SetFMUstate(void *c, void *state) { (void)c; (void)state; return ERROR; }
int fmi2FreeFMUstate(void *c, void **state) { (void)c; (void)state; return ERROR; }
int fmi2SerializedFMUstateSize(void *c, void *state, size_t *size) { (void)c; (void)state; (void)size; return ERROR; }
int fmi2SerializeFMUstate(void *c, void *state, char bytes[], size_t size) { (void)c; (void)state; (void)bytes; (void)size; return ERROR; }
int fmi2DeSerializeFMUstate(void *c, const char bytes[], size_t size, void **state) { (void)c; (void)bytes; (void)size; (void)state; return ERROR; }
int fmi2GetDirectionalDerivative(void *c, const unsigned u[], size_t n, const unsigned k[], size_t m, const double dk[], double du[]) {
  (void)c; (void)u; (void)n; (void)k; (void)m; (void)dk; (void)du;
  return ERROR;
}
int fmi2SetRealInputDerivatives(void *c, const unsigned r[], size_t n, const int order[], const double v[]) { (void)c; (void)r; (void)n; (void)order; (void)v; return ERROR; }
int fmi2GetRealOutputDerivatives(void *c, const unsigned r[], size_t n, const int order[], double v[]) { (void)c; (void)r; (void)n; (void)order; (void)v; return ERROR; }
int fmi2GetStatus(void *c, int kind, int *value) { (void)c; (void)kind; (void)value; return DISCARD; }
int fmi2GetRealStatus(void *c, int kind, double *value) { (void)c; (void)kind; (void)value; return DISCARD; }
int fmi2GetIntegerStatus(void *c, int kind, int *value) { (void)c; (void)kind; (void)value; return DISCARD; }
int fmi2GetBooleanStatus(void *c, int kind, int *value) { (void)c; (void)kind; (void)value; return DISCARD; }
int fmi2GetStringStatus(void *c, int kind, const char **value) { (void)c; (void)kind; (void)value; return DISCARD; }
