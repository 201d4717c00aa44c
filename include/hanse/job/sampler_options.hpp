// Options of the sampler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hanse {

struct SamplerOptions {
  std::string kind = "uniform";
  int64_t per_round = 10;
  bool replacement = true;
  std::string availability = "always";
  double alpha = 0.4;  // osmd family: p >= alpha/M
  std::string variant = "paper";
  double rate_scale = 1;
  std::string a_max = "auto";    // auto | first-round | running | a number
  int64_t horizon = 0;           // 0: run.rounds of the first start
  std::optional<double> eta;     // osmd; none: the smallest of adaptive-osmd's
  std::optional<double> gamma;   // adaptive-osmd, osmd-doubling; none: Theorem 8
  std::string restart = "last";  // osmd-doubling
  double mixing = 0;             // mabs, vrb: share of uniform draws; 0: their papers'
  std::optional<double> rate;    // mabs; none: the paper's
  double c = 0;                  // avare; 0: M
  double delta = 1;              // avare
};

// The number of sampler.a-max; nothing for its words. Throws InvalidArgument for anything else.
std::optional<double> given_bound(const std::string& text);

}  // namespace hanse
