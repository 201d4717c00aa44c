#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/protocol/checked_rules.hpp"
#include "told_fields.hpp"

namespace hanse {

namespace {

// Gives the sampler who is there: everyone when a round does not say.
void set_available(const Json& round, const std::string& where, ClientSampler& sampler) {
  std::vector<bool> there(to_index(sampler.clients()));
  for (const int64_t client : clients_in(round, "available", sampler.clients(), where)) {
    there[to_index(client)] = true;
  }
  std::vector<int64_t> changed;
  for (int64_t client = 0; client < sampler.clients(); ++client) {
    if (there[to_index(client)] != sampler.available().contains(client)) {
      changed.push_back(client);
    }
  }
  sampler.toggle(changed);
}

std::vector<double> probabilities(const ClientSampler& sampler) {
  std::vector<double> all(to_index(sampler.clients()));
  for (std::size_t c = 0; c < all.size(); ++c) {
    all[c] = sampler.probability(static_cast<int64_t>(c));
  }
  return all;
}

// Position in the draw of each client of `draws`.
std::vector<std::size_t> positions(const Draw& draw, const std::vector<int64_t>& draws) {
  std::unordered_map<int64_t, std::size_t> position;
  for (std::size_t i = 0; i < draw.size(); ++i) position.emplace(draw.clients[i], i);
  std::vector<std::size_t> found;
  for (const int64_t client : draws) found.push_back(position.at(client));
  return found;
}

// The mean of what a client's draws have; `at` is the position of each draw's client.
std::vector<double> client_means(const Draw& draw, const std::vector<std::size_t>& at,
                                 const std::vector<double>& of_draws) {
  std::vector<double> means(draw.size());
  for (std::size_t j = 0; j < at.size(); ++j) {
    means[at[j]] += of_draws[j] / static_cast<double>(draw.counts[at[j]]);
  }
  return means;
}

// Gives the sampler the losses of the round's candidates, if it looks at losses.
void take_candidates(const Json& round, const std::string& where, ClientSampler& sampler) {
  if (!sampler.needs_candidates()) return;
  const auto clients =
      ids(field(round, "candidates", where), sampler.clients(), false, where + ".candidates");
  sampler.take_candidates(clients,
                          numbers(round, "candidate_losses", clients.size(), -INFINITY, where));
}

// K of the round: "asked", or the sampler's own.
int64_t asked_in(const Json& round, const std::string& where, const ClientSampler& sampler) {
  return round.contains("asked")
             ? integer(round.at("asked"), 0, sampler.per_round(), where + ".asked")
             : sampler.per_round();
}

// The last draw of each client.
std::vector<std::size_t> last_draws(const Draw& draw, const std::vector<std::size_t>& at) {
  std::vector<std::size_t> last(draw.size());
  for (std::size_t j = 0; j < at.size(); ++j) last[at[j]] = j;
  return last;
}

// Gives a sampler of the user's own the losses of the candidates that it names: those of the trace,
// or with "own_draws" what the round has of them; without "candidates" it has losses of all.
void take_own_candidates(const Json& trace, const Json& round, const std::string& where,
                         const std::vector<int64_t>& named, ClientSampler& sampler) {
  const auto known = clients_in(round, "candidates", sampler.clients(), where);
  const auto losses = numbers(round, "candidate_losses", known.size(), -INFINITY, where);
  if (!trace.contains("own_draws")) {
    if (named != known) {
      throw InvalidArgument(
          fmt::format("the rule names candidates {}, and the trace has {}", named, known));
    }
    return sampler.take_candidates(known, losses);
  }
  std::vector<int64_t> both;
  std::vector<double> of_both;
  for (const int64_t client : named) {
    const auto at = to_index(std::find(known.begin(), known.end(), client) - known.begin());
    if (at == known.size()) continue;
    both.push_back(client);
    of_both.push_back(losses[at]);
  }
  sampler.take_candidates(both, of_both);
}

// What the sampler, one of the user's own, draws from the stream of the run's round.
Draw draw_again(const Json& trace, const Json& round, const std::string& where, int64_t t,
                ClientSampler& sampler) {
  const int64_t seed = integer(field(trace, "seed", "trace"), 0, INT64_MAX, "seed");
  RandomStream stream(static_cast<uint64_t>(seed), Purpose::kSampling, static_cast<uint64_t>(t));
  const int64_t asked = asked_in(round, where, sampler);
  if (sampler.needs_candidates()) {
    const auto named = sampler.candidates(t, asked, stream);
    if (!named.empty()) take_own_candidates(trace, round, where, named, sampler);
  }
  return sampler.draw(t, asked, stream);
}

// The sampler observes what a round with these draws has of those that it has drawn by itself.
void observe_known(const Draw& draw, const std::vector<int64_t>& draws, const Feedback& told,
                   ClientSampler& sampler) {
  Draw known;
  std::vector<std::size_t> places;
  for (const int64_t client : draw.clients) {
    const auto at = to_index(std::find(draws.begin(), draws.end(), client) - draws.begin());
    if (at == draws.size()) continue;
    known.clients.push_back(client);
    places.push_back(at);
  }
  sampler.observe(known, at_places(told, places).report());
}

// As replay_round() has it, of a sampler of the user's own. It draws what the trace has, or with
// "own_draws" what it likes, and observes then what the round has of those that it draws.
Json replay_own(const Json& trace, const Json& round, int64_t t, const std::string& where,
                ClientSampler& sampler) {
  const bool own_draws = trace.contains("own_draws");
  set_available(round, where, sampler);
  const auto draws =
      ids(field(round, "draws", where), sampler.clients(), own_draws, where + ".draws");
  const auto feedback = numbers(round, "feedback", draws.size(), -INFINITY, where);
  const auto losses = numbers(round, "losses", draws.size(), -INFINITY, where);
  OwnedReport<Feedback> told(Feedback{.a = feedback, .losses = losses});
  read_told(round, draws.size(), sampler, where, told);
  try {
    const Draw draw = draw_again(trace, round, where, t, sampler);
    if (!own_draws && draw.clients != draws) {
      throw InvalidArgument(
          fmt::format("the rule draws clients {}, and the trace has {}", draw.clients, draws));
    }
    if (own_draws) {
      observe_known(draw, draws, told.report(), sampler);
    } else {
      sampler.observe(draw, told.report());
    }
    return {{"draws", draw.clients}, {"weights", draw.weights}};
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(where + ": " + error.what());
  }
}

// `own` is the round's number, from 1, when the sampler shall draw too; else 0.
Json replay_round(const Json& round, const std::string& where, bool has_experts, int64_t own,
                  ClientSampler& sampler) {
  set_available(round, where, sampler);
  if (sampler.needs_all_clients()) {
    if (!round.contains("foreseen")) {
      throw InvalidArgument("the rule looks at all clients before this round", where,
                            "give \"foreseen\", a of each client, or set sampler.a-max to a "
                            "number or to running where it is a matter of the bound");
    }
    sampler.observe_all(numbers(round, "foreseen", to_index(sampler.clients()), 0, where));
  }
  take_candidates(round, where, sampler);
  const auto draws = ids(field(round, "draws", where), sampler.clients(), true, where + ".draws");
  const bool by_losses = sampler.needs_squares() || sampler.needs_candidates();
  const auto feedback = by_losses && !round.contains("feedback")
                            ? std::vector<double>(draws.size())
                            : numbers(round, "feedback", draws.size(), -INFINITY, where);
  const auto losses = round.contains("losses")
                          ? numbers(round, "losses", draws.size(), -INFINITY, where)
                          : feedback;
  Json result = {{"probabilities", probabilities(sampler)}};
  const int64_t asked = asked_in(round, where, sampler);
  if (own > 0) {
    RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(own));
    sampler.draw(own, asked, stream);
  }
  try {
    Draw recorded;
    recorded.clients = draws;
    check_feedback(recorded, feedback);
    const Draw draw = sampler.impose(asked, draws);
    const auto at = positions(draw, draws);
    std::vector<double> coefficients;  // of each draw
    for (const std::size_t i : at) {
      coefficients.push_back(draw.weights[i] / static_cast<double>(draw.counts[i]));
    }
    const auto a = client_means(draw, at, feedback);
    result["coefficients"] = coefficients;
    result["loss_estimate"] = variance_estimate(draw, a);
    OwnedReport<Feedback> of_draws(Feedback{.a = feedback, .losses = losses});
    read_told(round, draws.size(), sampler, where, of_draws);
    auto told = at_places(of_draws.report(), last_draws(draw, at));
    told.keep(&Feedback::a, a);
    told.keep(&Feedback::losses, client_means(draw, at, losses));
    sampler.observe(draw, told.report());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(where + ": " + error.what());
  }
  if (has_experts) result["experts"] = sampler.expert_weights();
  return result;
}

// The kind's options, with K from the first round when the rule does not name it.
SamplerOptions options_of(const Json& trace, const Job& job) {
  SamplerOptions options = job.sampler;
  const Json& rounds = rounds_of(trace);
  const bool is_named = trace.at("rule").contains("sampler.per-round");
  if (!is_named && sampler_traits(options).by_chance) {
    throw InvalidArgument("the expected number of participants is not in the rounds",
                          "rule.sampler.per-round");
  }
  if (!is_named && !rounds.empty()) {
    const Json& draws = field(rounds.front(), "draws", "rounds[0]");
    options.per_round = std::max<int64_t>(1, static_cast<int64_t>(draws.size()));
  }
  return options;
}

std::vector<double> initial_of(const Json& trace, const SamplerOptions& options, int64_t clients) {
  const SamplerTraits traits = sampler_traits(options);
  const char* name = traits.own ? "samples" : "initial";
  if (!trace.contains(name)) return {};
  auto initial = numbers(trace, name, to_index(clients), 0, "trace");
  const double sum = std::accumulate(initial.begin(), initial.end(), 0.0);
  if (!traits.by_shares && !traits.by_samples && !(std::abs(sum - 1) < 1e-6)) {
    throw InvalidArgument(fmt::format("probabilities sum to {}, not 1", sum), "trace.initial");
  }
  return initial;
}

}  // namespace

Json replay_sampler(const Json& trace, const Job& job, bool checks) {
  const int64_t clients = clients_of(trace);
  const SamplerOptions options = options_of(trace, job);
  const auto initial = initial_of(trace, options, clients);
  const auto make = [&] { return make_sampler(options, clients, initial); };
  const auto sampler =
      checks ? checked_sampler("sampler.kind = " + options.kind, make, std::make_shared<int64_t>(0))
             : make();
  const SamplerTraits traits = sampler_traits(options);
  int64_t t = 0;
  Json result = each_round(trace, [&](const Json& round, const std::string& where) {
    ++t;
    if (traits.own) return replay_own(trace, round, t, where, *sampler);
    return replay_round(round, where, traits.has_experts, checks ? t : 0, *sampler);
  });
  if (trace.contains("importance")) {
    result["importance"] = numbers(trace, "importance", to_index(clients), 0, "trace");
  }
  if (!traits.own) result["next"] = probabilities(*sampler);
  return result;
}

}  // namespace hanse
