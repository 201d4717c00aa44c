#include "bind.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

void bind_data(OptionTable& table, DataOptions& data) {
  table.add_choice("data.kind", data.kind, known_names("data.kind"), "source of the samples");
  table.add("data.path", data.path, "folder (idx, leaf) or file")
      .only_for({"idx", "csv", "tff", "leaf", "text", "hanse"});
  table
      .add("data.test-path", data.test_path,
           "file of the clients' test samples; empty: data.test-fraction splits the others")
      .only_for({"tff"});
  table.add("data.labels", data.labels, at_least(0),
            "classes to keep, renumbered 0, 1, ... in this order; empty: all");
  table.add("data.test-fraction", data.test_fraction, from_below(0, 1),
            "share of each client's samples kept for testing, stratified by label (texts: the end "
            "of each); 0: evaluate on the training samples; not used where the data have test "
            "samples");
  table
      .add("data.label-column", data.label_column,
           "column of the label, empty: the last (csv); dataset of the labels (tff)")
      .only_for({"csv", "tff"});
  table
      .add("data.feature-column", data.feature_column,
           "dataset of the features; empty: pixels, image, snippets, tokens or title")
      .only_for({"tff"});
  table.add("data.window", data.window, at_least(1), "tokens of a text that predict the next one")
      .only_for({"tff", "text"});
  table
      .add("data.stride", data.stride, at_least(1),
           "tokens of a text from one that is predicted to the next")
      .only_for({"tff", "text"});
  table
      .add("data.max-samples", data.max_samples, at_least(0),
           "most samples that a client makes of its training and of its test texts, the first "
           "ones; 0: all")
      .only_for({"tff", "text"});
  table
      .add_choice("data.vocabulary", data.vocabulary, {"ascii", "data"},
                  "characters: a fixed list of 97, or those the texts have")
      .only_for({"tff", "leaf", "text"});
  table
      .add("data.vocabulary-size", data.vocabulary_size, between(1, 1 << 24),
           "words (Stack Overflow): so many of the most frequent ones")
      .only_for({"tff"});
  table
      .add("data.client-column", data.client_column,
           "column that names the client, for federation.partition = by-column; empty: none")
      .only_for({"csv"});
  table
      .add_choice("data.task", data.task, {"classification", "regression"},
                  "what the label column holds")
      .only_for({"csv"});
  table.add_choice("data.standardize", data.standardize, {"none", "client", "all"},
                   "centre and scale the features of a csv by the training samples of each "
                   "client, or of all clients");
  table
      .add("data.shape", data.shape, at_least(1),
           "shape of one sample (leaf: of those with so many numbers)")
      .only_for({"random", "leaf"});
  table.add("data.classes", data.classes, at_least(0), "classes; 0: regression")
      .only_for({"random"});
  table
      .add("data.tokens", data.tokens, between(0, 1 << 24),
           "make samples of whole numbers below it; 0: of numbers in [0, 1]")
      .only_for({"random"});
  table
      .add_choice("data.design", data.design, {"dense", "support"},
                  "features: all coordinates, or one of each client")
      .only_for({"synthetic-regression"});
  table.add("data.dimension", data.dimension, at_least(1), "features of a sample")
      .only_for({"synthetic-regression"});
  table
      .add("data.sigma", data.sigma, at_least(0),
           "how unlike the clients are (dense): deviation of the logarithm of their scale")
      .only_for({"synthetic-regression"});
  table
      .add("data.kappa", data.kappa, at_least(1), "condition number of the features' scale (dense)")
      .only_for({"synthetic-regression"});
  table
      .add_choice("data.scale", data.scale, {"covariance", "deviation"},
                  "what the scale of the features is (dense): the paper's reading, or its authors' "
                  "code's")
      .only_for({"synthetic-regression"});
  table
      .add("data.nu", data.nu, between(0, 10),
           "deviation of the logarithm of the true coefficients (support)")
      .only_for({"synthetic-regression"});
}

void bind_federation(OptionTable& table, FederationOptions& federation) {
  table.add_choice("federation.partition", federation.partition,
                   known_names("federation.partition"), "how samples are given to clients");
  table.add("federation.clients", federation.clients, at_least(1),
            "number of clients; by-column: taken from the data");
  table.add("federation.held-out", federation.held_out, at_least(0),
            "clients that are evaluated and never trained on: a share below 1, or a number");
  table.add("federation.samples", federation.samples, at_least(1),
            "mean samples a client that data.kind = random makes");
  table
      .add("federation.alpha", federation.alpha, above(0),
           "concentration; small: few classes a client, large: all alike")
      .only_for({"dirichlet"});
  table
      .add("federation.min-samples", federation.min_samples, at_least(1),
           "samples of the smallest client; data.kind = text leaves smaller roles out")
      .only_for({"dirichlet", "power-law", "by-column", "auto"});
  table
      .add("federation.labels-per-client", federation.labels_per_client, at_least(1),
           "shards a client (shards), classes a group (by-label)")
      .only_for({"shards", "by-label"});
  table.add("federation.sizes", federation.sizes, at_least(1), "possible sizes of a client")
      .only_for({"sizes"});
  table
      .add("federation.size-probabilities", federation.size_probabilities, between(0, 1),
           "probability of each size")
      .only_for({"sizes"});
  table
      .add("federation.power", federation.power, above(1),
           "exponent of the density of client sizes; close to 1: most unequal")
      .only_for({"power-law"});
}

}  // namespace hanse
