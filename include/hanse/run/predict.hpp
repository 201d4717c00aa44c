// `hanse predict`: what a run's model says of new data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "hanse/base/options.hpp"
#include "hanse/data/new_samples.hpp"

namespace hanse {

struct PredictQuery {
  std::string client;          // whose model, means and deviations; empty: nobody's
  int64_t cluster = 0;         // whose copy of the tensors that clusters have copies of
  std::string model = "auto";  // best, model or averaged (.h5 of the run), or a file; auto: best.h5
                               // if there is one, else model.h5
  std::string out;             // a file; empty: `print`
  UnknownLevels unknown = UnknownLevels::kRefuse;
};

// Names "client", "cluster", "model", "out" and "unknown"; `query` must outlive the table.
void bind_predict(OptionTable& table, PredictQuery& query);

// Reads `data`, data of the kind that the run had (new_samples.hpp), prepares each sample as
// features.csv of the run says, and writes a table: a header and a line a sample, of a sequence a
// line a position. Its columns are `id`, those of the data that the model does not read, and for
// classes the probability of each, p_NAME (softmax of the logits, or their logistic function), for
// numbers to predict `predicted`, or of several predicted_NAME. Numbers have all their digits. With
// a client, its own tensors, fillings, means and deviations take part where the run has such: its
// tensors are those of the last checkpoint. Gives the table to `print` in pieces, or writes it to
// query.out, whole or not at all; returns a line that says so, or nothing.
// Throws InvalidArgument: no run, one without features.csv or a model, data that do not fit, an
// unknown client, or a cluster of another run. Cost: that of an evaluation; memory for a block of
// samples of a table.
std::string predict_run(const std::string& run, const std::string& data, const PredictQuery& query,
                        const std::function<void(std::string_view)>& print);

}  // namespace hanse
