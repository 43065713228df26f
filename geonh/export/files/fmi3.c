#include <stdbool.h>
{{shared}}
typedef void (*Logger)(void *, int, const char *, const char *);
enum { OK, WARNING, DISCARD, ERROR };
#define INSTANCE Instance *it = c

static int told(Instance *it, int failed) {
  if (failed && it->logger && it->message[0]) ((Logger)it->logger)(it->environment, ERROR, "logStatusError", it->message);
  it->message[0] = 0;
  return failed ? ERROR : OK;
}

const char *fmi3GetVersion(void) { return "3.0"; }
int fmi3SetDebugLogging(void *c, bool on, size_t n, const char *const categories[]) { (void)c; (void)on; (void)n; (void)categories; return OK; }
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible, bool logging,
                                  bool events, bool early, const unsigned required[], size_t n, void *environment,
                                  Logger logger, void *update) {
  (void)resources; (void)visible; (void)logging; (void)events; (void)early; (void)required; (void)n; (void)update;
  return made(name, token, environment, (void *)logger);
}
void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, bool visible, bool logging,
                                   void *environment, Logger logger) {
  (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)logger;
  return NULL;
}
void *fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *resources, bool visible, bool logging,
                                        void *environment, Logger logger, void *update, void *lock, void *unlock) {
  (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)logger;
  (void)update; (void)lock; (void)unlock;
  return NULL;
}
void fmi3FreeInstance(void *c) { free(c); }
int fmi3EnterInitializationMode(void *c, bool has_tolerance, double tolerance, double begin, bool has_end, double end) {
  INSTANCE;
  (void)has_tolerance; (void)tolerance; (void)has_end; (void)end;
  it->begin = begin;
  it->started = 0;
  return OK;
}
int fmi3ExitInitializationMode(void *c) { INSTANCE; return told(it, start(it)); }
int fmi3Terminate(void *c) { (void)c; return OK; }
int fmi3Reset(void *c) { values_by_default(c); return OK; }
int fmi3GetFloat64(void *c, const unsigned references[], size_t n, double values[], size_t m) {
  INSTANCE;
  int failed = n != m;
  for (size_t i = 0; i < n && !failed; i++) failed |= get(it, references[i], values + i);
  return told(it, failed);
}
int fmi3SetFloat64(void *c, const unsigned references[], size_t n, const double values[], size_t m) {
  INSTANCE;
  int failed = n != m;
  for (size_t i = 0; i < n && !failed; i++) failed |= set(it, references[i], values[i]);
  return told(it, failed);
}
int fmi3DoStep(void *c, double t, double h, bool done, bool *event, bool *terminate, bool *early, double *reached) {
  INSTANCE;
  (void)done;
  *event = *terminate = *early = false;
  int failed = go_on(it, h);
  *reached = failed ? t : t + h;
  return told(it, failed);
}
#define NONE(name, type)                                                                                             \
  int fmi3Get##name(void *c, const unsigned r[], size_t n, type v[], size_t m) { (void)c; (void)r; (void)v; (void)m; return n ? ERROR : OK; } \
  int fmi3Set##name(void *c, const unsigned r[], size_t n, const type v[], size_t m) { (void)c; (void)r; (void)v; (void)m; return n ? ERROR : OK; }
NONE(Float32, float)
NONE(Int8, int8_t)
NONE(UInt8, uint8_t)
NONE(Int16, int16_t)
NONE(UInt16, uint16_t)
NONE(Int32, int32_t)
NONE(UInt32, uint32_t)
NONE(Int64, int64_t)
NONE(UInt64, uint64_t)
NONE(Boolean, bool)
NONE(String, char *)
int fmi3GetBinary(void *c, const unsigned r[], size_t n, size_t sizes[], const uint8_t *v[], size_t m) { (void)c; (void)r; (void)sizes; (void)v; (void)m; return n ? ERROR : OK; }
int fmi3SetBinary(void *c, const unsigned r[], size_t n, const size_t sizes[], const uint8_t *const v[], size_t m) { (void)c; (void)r; (void)sizes; (void)v; (void)m; return n ? ERROR : OK; }
/* The rest of the interface, of abilities that the description does not claim. */
#define ABSENT(name) int fmi3##name(void *c) { (void)c; return ERROR; }
ABSENT(EnterConfigurationMode)
ABSENT(ExitConfigurationMode)
ABSENT(EnterEventMode)
ABSENT(EnterStepMode)
ABSENT(EnterContinuousTimeMode)
ABSENT(GetClock)
ABSENT(SetClock)
ABSENT(GetNumberOfVariableDependencies)
ABSENT(GetVariableDependencies)
ABSENT(GetFMUState)
ABSENT(SetFMUState)
ABSENT(FreeFMUState)
ABSENT(SerializedFMUStateSize)
ABSENT(SerializeFMUState)
ABSENT(DeserializeFMUState)
ABSENT(GetDirectionalDerivative)
ABSENT(GetAdjointDerivative)
ABSENT(GetIntervalDecimal)
ABSENT(GetIntervalFraction)
ABSENT(GetShiftDecimal)
ABSENT(GetShiftFraction)
ABSENT(SetIntervalDecimal)
ABSENT(SetIntervalFraction)
ABSENT(SetShiftDecimal)
ABSENT(SetShiftFraction)
ABSENT(EvaluateDiscreteStates)
ABSENT(UpdateDiscreteStates)
ABSENT(CompletedIntegratorStep)
ABSENT(SetTime)
ABSENT(SetContinuousStates)
ABSENT(GetContinuousStateDerivatives)
ABSENT(GetEventIndicators)
ABSENT(GetContinuousStates)
ABSENT(GetNominalsOfContinuousStates)
ABSENT(GetNumberOfEventIndicators)
ABSENT(GetNumberOfContinuousStates)
ABSENT(GetOutputDerivatives)
ABSENT(ActivateModelPartition)
