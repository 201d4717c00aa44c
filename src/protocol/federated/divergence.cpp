#include "federated/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "federated/client_runner.hpp"
#include "hanse/base/index.hpp"
#include "hanse/model/finite.hpp"
#include "hanse/protocol/attackers.hpp"

namespace hanse {

namespace {

constexpr float kLargeFeature = 100;

// The largest absolute value among the features of a client's training samples.
float largest_feature(const Federation& federation, int64_t client) {
  float largest = 0;
  std::vector<float> values(to_index(federation.sample_values()));
  const SampleRange samples = federation.train(client);
  for (int64_t sample = samples.begin; sample < samples.end; ++sample) {
    federation.copy({sample, sample + 1}, values.data());
    for (const float value : values) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// This error, with the largest feature of the client where that is large.
Divergence of_features(const Divergence& error, const Federation& federation, const Model& model) {
  if (model.vocabulary() > 0) return error;
  const float largest = largest_feature(federation, error.client());
  if (!(largest > kLargeFeature)) return error;
  return error.hinting(fmt::format(
      "its features reach {:.3g}, and data.standardize scales those of a csv", largest));
}

Divergence explained(const Divergence& error, const Federation& federation, const Model& model,
                     const RoundContext& round, ClientRunner& runner) {
  const int64_t client = error.client();
  runner.bring();
  const std::string wrong = not_finite(model.layout(), round.model);
  if (!wrong.empty()) {
    return {"the model that the clients have received is not finite: " + wrong, Divergence::kNobody,
            round.number, "a smaller server.lr may help"};
  }
  const double loss = runner.evaluator(round.model).range(federation.train(client)).loss;
  if (std::isfinite(loss)) return of_features(error, federation, model);
  const std::string found = fmt::format(
      "the model that a client has received has a loss of {} on its samples, before "
      "it trains",
      number_text(loss));
  if (round.number > 1) {
    return {found, client, round.number, "a smaller client.lr or server.lr may help"};
  }
  return of_features({found, client, round.number,
                      "look at the samples' values, and at the model's outputs for them"},
                     federation, model);
}

}  // namespace

Divergence diverged(const std::string& what, int64_t client, int64_t round) {
  return {what, client, round, "a smaller client.lr or client.clip may help"};
}

void require_finite_factor(double factor, int64_t round) {
  if (std::isfinite(static_cast<float>(factor))) return;
  throw Divergence(fmt::format("aggregator.kind's step has a factor of {}", number_text(factor)),
                   Divergence::kNobody, round, "milder values of the aggregator's keys may help");
}

void check_buffers(const RoundContext& round, int64_t client, double coefficient,
                   const ParameterLayout& layout, std::span<const float> row, bool is_update,
                   double limit) {
  for (const ParameterSlot& slot : layout.slots()) {
    if (slot.trainable || slot.frozen) continue;
    for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
      const auto value = static_cast<double>(row[to_index(i)]);
      const double moved =
          is_update ? value : value - static_cast<double>(round.model[to_index(i)]);
      if (std::abs(coefficient * moved) < limit) continue;  // never true of NaN
      const std::string most =
          std::isfinite(limit)
              ? fmt::format(", and the sum takes {:.3g} of it", limit / std::abs(coefficient))
              : "";
      throw Divergence(fmt::format("{} moves by {} in a client's training{}", slot.name,
                                   number_text(moved), most),
                       client, round.number, "group norm has no such buffers");
    }
  }
}

std::exception_ptr explained(const std::exception_ptr& failure, const Federation& federation,
                             const Model& model, const RoundContext& round, ClientRunner& runner) {
  if (!failure) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const Divergence& error) {
    if (error.client() == Divergence::kNobody) return failure;
    try {
      return std::make_exception_ptr(explained(error, federation, model, round, runner));
    } catch (const std::exception&) {
      return failure;  // the evaluation, which was to say more, failed
    }
  } catch (...) {
    return failure;
  }
}

std::exception_ptr cleared(const std::exception_ptr& failure, const Attackers& attackers,
                           int64_t round) {
  if (!failure || round == 1) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const Divergence& error) {
    const int64_t client = error.client();
    if (client == Divergence::kNobody || attackers.among(round, {&client, 1}).front()) {
      return failure;
    }
    return std::make_exception_ptr(
        error.of_nobody().hinting("attackers may have moved the model so far"));
  } catch (...) {
    return failure;
  }
}

}  // namespace hanse
