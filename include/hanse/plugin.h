/* Rules of one's own as a shared library: the only binary interface that Hanse promises.
 *
 * A library exports `const HansePlugin* hanse_plugin(void)`. A job names it: aggregator.kind =
 * plugin and aggregator.path = rule.so, the same in [sampler] and with server.optimizer, and
 * evaluate.metric = rule.so. One library may have several kinds of rules.
 *
 * Every struct begins with its size in bytes; a later version only adds fields at the end. All
 * arrays are the caller's and valid during the call alone. Only rank 0 calls a rule, all but its
 * columns(), and one call at a time. Functions that return int return 0, or another number for a
 * failure that last_error() puts in one line. A rule must be a function of what it is given and of
 * its saved state: then runs resume exactly. jobs/own-rules.md has examples.
 */
#ifndef HANSE_PLUGIN_H
#define HANSE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HANSE_PLUGIN_VERSION 1

enum {
  HANSE_AGGREGATOR = 1,
  HANSE_SAMPLER = 2,
  HANSE_OPTIMIZER = 3,
  HANSE_METRIC = 4,
  HANSE_ATTACK = 5
};

/* What a rule is made for. */
typedef struct HanseCreate {
  size_t size;
  int64_t kind;       /* HANSE_AGGREGATOR, ... */
  const char* path;   /* of the job: the library itself */
  int64_t arguments;  /* those of the job's key `args`: names[i]=values[i] */
  const char* const* names;
  const char* const* values;
  int64_t clients;    /* M; not of a metric or an attack */
  int64_t per_round;  /* of a sampler: the most clients of a draw */
  const double* samples; /* of a sampler: the training samples of each client; else NULL */
} HanseCreate;

/* What an aggregator must be told, a sampler (candidates) or an attack (last); 0: not needed. */
typedef struct HanseNeeds {
  size_t size;
  int32_t losses;  /* at the received model, on the client's training samples */
  int32_t norms;   /* |theta_i - theta|^2: for scale(), and with `late` for mix() */
  int32_t late;    /* mix() is called after the training */
  int32_t gram;    /* inner products of the updates; late, too */
  int32_t layers;  /* with gram: a matrix and coefficients for each layer of the model */
  int32_t rates;   /* the rates of the clients' own steps; late, too */
  int32_t candidates; /* candidates() and draw_by_losses() in the place of draw() */
  int32_t columns; /* columns() makes the step, late: 1 with mix()'s weights, 2 with the shares */
  int32_t last;    /* of an attack: it sees the last aggregate */
} HanseNeeds;

/* A round's k participants, in the draw's order. What was not asked for is NULL. */
typedef struct HanseReport {
  size_t size;
  int64_t round;               /* from 1 */
  int64_t k;
  int64_t layers;              /* 1 unless asked for */
  const int64_t* clients;
  const double* samples;       /* training samples */
  const double* lambda;        /* share of all clients' samples */
  const double* draw_weights;
  const double* losses;
  const double* norms;         /* squared; in mix() only with `late` */
  const double* gram;          /* [layers, k, k] */
  const double* rates;
  const int64_t* staleness;    /* rounds between the model that the work started from and the
                                  present one; NULL: 0 */
  const double* durations;     /* seconds on the virtual clock; NULL: the run has none */
} HanseReport;

/* Hanse's random stream of the round, from which every draw of a run comes. */
typedef struct HanseRandom {
  size_t size;
  void* stream;
  double (*uniform)(void* stream);               /* in [0, 1) */
  double (*normal)(void* stream);                /* standard normal */
  int64_t (*below)(void* stream, int64_t bound); /* in 0, ..., bound - 1; bound >= 1 */
  int64_t asked; /* most clients of this draw: per_round, in asynchronous rounds often fewer */
} HanseRandom;

/* What the k participants of a round reported, in the draw's order. */
typedef struct HanseFeedback {
  size_t size;
  int64_t round;
  int64_t k;
  const int64_t* clients;
  const double* feedback;  /* lambda_i^2 |g_i|^2 */
  const double* losses;    /* mean loss of the local steps */
  const int64_t* staleness; /* as in HanseReport */
  const double* durations;
} HanseFeedback;

/* The evaluated clients. */
typedef struct HanseClients {
  size_t size;
  int64_t clients;
  const char* const* names;  /* as the data call them, or their numbers */
  const double* samples;     /* test samples */
  const double* loss;
  const double* accuracy;
  const double* auroc;       /* NaN without two classes */
  const double* train_samples;
  const double* train_loss;
} HanseClients;

/* What byzantine participants see of a round. */
typedef struct HanseHonest {
  size_t size;
  int64_t round;                /* from 1 */
  int64_t honest, byzantine;    /* participants that are, H, and that are not */
  const double* gram;   /* [rows, rows] inner products of the honest updates, their mean, their
                           deviation by column, and of the last aggregate, if needed */
  int64_t rows;         /* H + 2, or H + 3 */
} HanseHonest;

/* A block of columns of the k finite updates of a round, the same on any number of ranks. */
typedef struct HanseColumns {
  size_t size;
  int64_t k, width;
  const double* rows;    /* [k, width] theta_i - theta */
  const double* weights; /* [k] mix()'s, or lambda times draw_weights over their sum */
} HanseColumns;

/* A named array of a rule's state. */
typedef struct HanseArray {
  size_t size;
  const char* name;      /* no '/', and not empty */
  const char* type;      /* as numpy writes it: "<f8", "<i8", "<f4", "|b1", ... */
  int64_t dimensions;
  const int64_t* shape;
  const void* data;
  int64_t bytes;
} HanseArray;

/* A rule that lacks a function has NULL there. */
typedef struct HansePlugin {
  size_t size;
  int64_t version; /* HANSE_PLUGIN_VERSION */
  void* (*create)(const HanseCreate* create); /* NULL: failed */
  void (*destroy)(void* rule);
  const char* (*last_error)(void); /* valid until the next call */

  /* Aggregator. coefficients [k], or [layers, k]: what multiplies theta_i - theta, used as it is.
   * scale() may shorten the whole step afterwards; its report has the norms. */
  int (*needs)(void* rule, HanseNeeds* needs); /* all 0 at first; NULL: nothing */
  int (*mix)(void* rule, const HanseReport* report, double* coefficients);
  int (*scale)(void* rule, const HanseReport* report, double* factor); /* NULL: 1 */

  /* Sampler. `available`: n ids, ascending. The draw has distinct ones of them, at most
   * random->asked, each with a weight >= 0; 1: all count alike. */
  int (*draw)(void* rule, int64_t round, const int64_t* available, int64_t n,
              const HanseRandom* random, int64_t* clients, double* weights, int64_t* k);
  int (*observe)(void* rule, const HanseFeedback* feedback); /* NULL: it learns nothing */

  /* Server optimizer: moves theta [n]. `update` is the mixed theta_i - theta, `lr` server.lr. */
  int (*step)(void* rule, double lr, float* theta, const float* update, int64_t n);

  /* Metric: add(sink, name, value) for each number, the same names every time. */
  int (*measure)(void* rule, const HanseClients* clients, void* sink,
                 void (*add)(void* sink, const char* name, double value));

  /* State, in every checkpoint: put(sink, array) for each; load() gets all in a rule that was just
   * created, in the order of their names. Both NULL: a rule without state. */
  int (*save)(void* rule, void* sink, void (*put)(void* sink, const HanseArray* array));
  int (*load)(void* rule, const HanseArray* arrays, int64_t n);

  /* Sampler: needs() is asked of it, too, where candidates is not NULL. candidates() puts distinct
   * ones of the `n` available clients, at most n, into clients; draw_by_losses() draws as draw()
   * does, by the losses of these at the model that the round sends. observe_late(): these k were
   * drawn, and came too late to count or never; NULL: nobody needs to know. */
  int (*candidates)(void* rule, int64_t round, const int64_t* available, int64_t n,
                    const HanseRandom* random, int64_t* clients, int64_t* k);
  int (*draw_by_losses)(void* rule, int64_t round, const int64_t* candidates, const double* losses,
                        int64_t n, const HanseRandom* random, int64_t* clients, double* weights,
                        int64_t* k);
  int (*observe_late)(void* rule, const int64_t* clients, const double* durations, int64_t k);

  /* Attack, whose needs() are asked, too: coefficients [honest->rows] of what attackers send. */
  int (*attack)(void* rule, const HanseHonest* honest, double* coefficients);

  /* Aggregator: the step [width] of a block. Every rank has a rule, with the state that rank 0's
   * saves behind mix(), and computes some blocks, in no order. */
  int (*columns)(void* rule, const HanseColumns* block, double* step);
} HansePlugin;

const HansePlugin* hanse_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
