/* Rules of every kind as a library, and such that do what they must not: args say what. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hanse/plugin.h"

typedef struct Rule {
  char what[32];
  int64_t calls; /* the state */
  double first_samples;
} Rule;

static char error_text[100];

static int is(void* rule, const char* what) { return strcmp(((Rule*)rule)->what, what) == 0; }
static const char* last_error(void) { return error_text; }

static void* create(const HanseCreate* c) {
  Rule* rule = calloc(1, sizeof *rule);
  for (int64_t i = 0; i < c->arguments; ++i) {
    if (strcmp(c->names[i], "what") == 0) snprintf(rule->what, 32, "%s", c->values[i]);
  }
  if (c->samples != NULL) rule->first_samples = c->samples[0];
  if (!is(rule, "refuse")) return rule;
  snprintf(error_text, sizeof error_text, "nothing for %d clients", (int)c->clients);
  free(rule);
  return NULL;
}

static int needs(void* rule, HanseNeeds* needs) {
  needs->norms = is(rule, "scale") || is(rule, "norms");
  needs->late = is(rule, "norms");
  needs->candidates = strncmp(((Rule*)rule)->what, "losses", 6) == 0;
  needs->gram = is(rule, "gram");
  needs->last = is(rule, "last");
  needs->columns = is(rule, "columns") || is(rule, "bad-columns") ? 1 : is(rule, "shares") ? 2 : 0;
  return 0;
}

static int mix(void* rule, const HanseReport* r, double* c) {
  if (is(rule, "fail")) {
    snprintf(error_text, sizeof error_text, "no mix in round %d", (int)r->round);
    return 1;
  }
  ++((Rule*)rule)->calls;
  for (int64_t i = 0; i < r->k; ++i) c[i] = 1.0 / (double)r->k;
  if (is(rule, "calls")) c[0] = (double)((Rule*)rule)->calls;
  if (is(rule, "nan")) c[1] = NAN;
  if (is(rule, "negative")) c[1] = -1;
  for (int64_t i = 0; is(rule, "norms") && i < r->k; ++i) c[i] = r->norms[i];
  for (int64_t i = 0; is(rule, "times") && i < r->k; ++i) {
    c[i] = r->staleness == NULL ? 9 : (double)r->staleness[i] + r->durations[i];
  }
  for (int64_t i = 0; is(rule, "gram") && i < r->k; ++i) c[i] = r->gram[i * r->k + i];
  return 0;
}

static int scale(void* rule, const HanseReport* r, double* factor) {
  if (is(rule, "scale")) *factor = 1 / (1 + r->norms[0]);
  return 0;
}

static int draw(void* rule, int64_t round, const int64_t* available, int64_t n,
                const HanseRandom* random, int64_t* clients, double* weights, int64_t* k) {
  (void)round;
  *k = is(rule, "many") ? 100 : is(rule, "none") ? 0 : 2;
  if (is(rule, "asked")) {
    *k = random->asked < n ? random->asked : n;
    for (int64_t i = 0; i < *k; ++i) clients[i] = available[i], weights[i] = 1;
    return 0;
  }
  clients[0] = available[random->below(random->stream, n / 2)];
  clients[1] = is(rule, "twice") ? clients[0] : available[n / 2];
  if (is(rule, "absent")) clients[1] = 3;
  weights[0] = is(rule, "samples") ? ((Rule*)rule)->first_samples
                                   : random->uniform(random->stream);
  weights[1] = is(rule, "negative") ? -1 : fabs(random->normal(random->stream));
  return 0;
}

/* Every second client that is there. */
static int candidates(void* rule, int64_t round, const int64_t* available, int64_t n,
                      const HanseRandom* random, int64_t* clients, int64_t* k) {
  (void)round;
  for (int64_t i = 0; i < n; i += 2) clients[i / 2] = available[i];
  *k = is(rule, "losses-many") ? n + 1 : (n + 1) / 2;
  if (is(rule, "losses-absent")) clients[0] = 1;
  if (is(rule, "losses-twice")) clients[1] = clients[0];
  random->below(random->stream, 2);
  return 0;
}

/* The one with the largest loss, which is its weight. */
static int draw_by_losses(void* rule, int64_t round, const int64_t* named, const double* losses,
                          int64_t n, const HanseRandom* random, int64_t* clients, double* weights,
                          int64_t* k) {
  (void)rule, (void)round, (void)random;
  int64_t most = 0;
  for (int64_t i = 1; i < n; ++i) most = losses[i] > losses[most] ? i : most;
  clients[0] = named[most];
  weights[0] = losses[most];
  *k = 1;
  return 0;
}

static int observe(void* rule, const HanseFeedback* f) {
  ((Rule*)rule)->calls += f->clients[0];
  if (f->durations != NULL) ((Rule*)rule)->calls += 100 * (int64_t)f->durations[0];
  if (f->staleness != NULL) ((Rule*)rule)->calls += 10000 * f->staleness[0];
  return 0;
}

static int observe_late(void* rule, const int64_t* clients, const double* durations, int64_t k) {
  for (int64_t i = 0; i < k; ++i) {
    ((Rule*)rule)->calls += 1000000 * clients[i] * (int64_t)durations[i];
  }
  return 0;
}

static int step(void* rule, double lr, float* theta, const float* update, int64_t n) {
  for (int64_t i = 0; i < n; ++i) theta[i] += (float)lr * update[i];
  if (is(rule, "nan")) theta[1] = NAN;
  return 0;
}

static int measure(void* rule, const HanseClients* c, void* sink,
                   void (*add)(void* sink, const char* name, double value)) {
  Rule* r = rule;
  add(sink, "first_loss", c->loss[0]);
  add(sink, c->names[1], (double)++r->calls);
  add(sink, "Z\xFCrich\t", 3);
  return 0;
}

/* The weighted sum of each column, and the calls of mix() before. */
static int columns(void* rule, const HanseColumns* b, double* step) {
  for (int64_t j = 0; j < b->width; ++j) {
    step[j] = (double)((Rule*)rule)->calls;
    for (int64_t i = 0; i < b->k; ++i) step[j] += b->weights[i] * b->rows[i * b->width + j];
  }
  if (is(rule, "bad-columns")) step[b->width - 1] = NAN;
  return 0;
}

/* The last of the rows, as often as it was called. */
static int attack(void* rule, const HanseHonest* h, double* coefficients) {
  for (int64_t i = 0; i < h->rows; ++i) coefficients[i] = 0;
  coefficients[h->rows - 1] = (double)++((Rule*)rule)->calls + h->gram[h->rows * h->rows - 1];
  return 0;
}

static int save(void* rule, void* sink, void (*put)(void* sink, const HanseArray* array)) {
  const int64_t shape[] = {1};
  const HanseArray array = {.size = sizeof array,
                            .name = "calls",
                            .type = "<i8",
                            .dimensions = 1,
                            .shape = shape,
                            .data = &((Rule*)rule)->calls,
                            .bytes = 8};
  put(sink, &array);
  return 0;
}

static int load(void* rule, const HanseArray* arrays, int64_t n) {
  if (n != 1 || strcmp(arrays[0].name, "calls") != 0 || arrays[0].bytes != 8) {
    snprintf(error_text, sizeof error_text, "the state has no calls");
    return 1;
  }
  memcpy(&((Rule*)rule)->calls, arrays[0].data, 8);
  return 0;
}

static const HansePlugin plugin = {
#ifdef FIRST_FORM /* what the first libraries had; what follows is not there */
                                   .size = offsetof(HansePlugin, candidates),
#else
                                   .size = sizeof(HansePlugin),
#endif
#ifdef OTHER_VERSION
                                   .version = HANSE_PLUGIN_VERSION + 1,
#else
                                   .version = HANSE_PLUGIN_VERSION,
#endif
                                   .create = create,
                                   .destroy = free,
                                   .last_error = last_error,
                                   .needs = needs,
                                   .mix = mix,
                                   .scale = scale,
                                   .draw = draw,
                                   .observe = observe,
                                   .step = step,
                                   .measure = measure,
                                   .save = save,
                                   .load = load,
                                   .candidates = candidates,
                                   .draw_by_losses = draw_by_losses,
                                   .observe_late = observe_late,
                                   .attack = attack,
                                   .columns = columns};

#ifdef NO_ENTRY
const HansePlugin* hanse_plugins(void) { return &plugin; }
#else
const HansePlugin* hanse_plugin(void) { return &plugin; }
#endif
