/* The mean over the share `tail` of the samples whose clients have the largest losses, as a library:
 * a rule in C needs hanse/plugin.h and nothing else. CMakeLists.txt builds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hanse/plugin.h"

typedef struct Rule {
  double tail;
} Rule;

static char error_text[200];

static const char* last_error(void) { return error_text; }

static void* create(const HanseCreate* c) {
  if (c->kind != HANSE_AGGREGATOR) {
    snprintf(error_text, sizeof error_text, "%s has an aggregator only", c->path);
    return NULL;
  }
  Rule* rule = calloc(1, sizeof *rule);
  rule->tail = 0.5;
  for (int64_t i = 0; i < c->arguments; ++i) {
    if (strcmp(c->names[i], "tail") == 0) rule->tail = atof(c->values[i]);
  }
  if (rule->tail > 0 && rule->tail <= 1) return rule;
  snprintf(error_text, sizeof error_text, "tail is %g, and must be in (0, 1]", rule->tail);
  free(rule);
  return NULL;
}

static int needs(void* rule, HanseNeeds* needs) {
  (void)rule;
  needs->losses = 1;
  return 0;
}

static int mix(void* rule, const HanseReport* r, double* coefficients) {
  double sum = 0, left = 1;
  for (int64_t i = 0; i < r->k; ++i) {
    sum += r->lambda[i] * r->draw_weights[i];
    coefficients[i] = -1; /* not taken yet */
  }
  for (int64_t taken = 0; taken < r->k; ++taken) {
    int64_t worst = -1;
    for (int64_t i = 0; i < r->k; ++i) {
      if (coefficients[i] < 0 && (worst < 0 || r->losses[i] > r->losses[worst])) worst = i;
    }
    const double most = r->lambda[worst] * r->draw_weights[worst] / sum / ((Rule*)rule)->tail;
    coefficients[worst] = most < left ? most : left;
    left -= coefficients[worst];
  }
  return 0;
}

static const HansePlugin plugin = {.size = sizeof(HansePlugin),
                                   .version = HANSE_PLUGIN_VERSION,
                                   .create = create,
                                   .destroy = free,
                                   .last_error = last_error,
                                   .needs = needs,
                                   .mix = mix};

const HansePlugin* hanse_plugin(void) { return &plugin; }
