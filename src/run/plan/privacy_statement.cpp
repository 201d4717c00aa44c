#include "privacy_statement.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/kinds/privacy.hpp"

namespace hanse {

namespace {

const char* neighbours_of(Adjacency adjacency) {
  switch (adjacency) {
    case Adjacency::kZeroOut: return "the updates of one client are replaced by zeros";
    case Adjacency::kAddRemove: return "one client is added or removed";
    case Adjacency::kReplace: return "one client is replaced by another";
  }
  return "";
}

std::string draws_of(const PrivacyTerms& terms, int64_t rounds) {
  const int64_t all = terms.clients, k = terms.per_round;
  const char* counted = terms.is_amplified() ? ", and the guarantee counts on these draws" : "";
  switch (terms.attendance) {
    case Attendance::kFull:
      return fmt::format("All {} clients take part in each of the {} rounds", all, rounds);
    case Attendance::kUniform:
      return fmt::format("Each of the {} rounds draws {} of {} clients uniformly{}", rounds, k, all,
                         counted);
    case Attendance::kPoisson:
      return fmt::format("Each of the {} rounds takes each of {} clients with probability {:g}{}",
                         rounds, all, terms.rate(), counted);
    case Attendance::kCyclic:
      return fmt::format(
          "The {} clients take part in turn, {} a round: each in at most {} of {} rounds", all, k,
          terms.participations(rounds), rounds);
  }
  return "";
}

const char* name_of_noise(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::kDiscreteGaussian: return "discrete Gaussian";
    case Mechanism::kGaussian: return "Gaussian";
    case Mechanism::kSkellam: return "Skellam";
  }
  return "";
}

std::string noise_of(const PrivacyOptions& o, const PrivacyCase& one) {
  std::string text = fmt::format(
      "to the sum of a round is added {} noise of standard deviation {:.5g} in each coordinate (z "
      "= "
      "{:.5g})",
      name_of_noise(o.mechanism), one.round.deviation, one.multiplier);
  if (o.is_distributed()) text += ", made of shares of the expected participants";
  if (o.honest < 1) text += fmt::format(", of which the share {:g} is honest", o.honest);
  if (o.correlation != Correlation::kNone) {
    text += fmt::format(", correlated over the rounds ({})", name_of(o.correlation));
  }
  return text;
}

std::string composition_of(const PrivacyCase& one) {
  switch (one.accountant) {
    case AccountantKind::kAuto: break;  // no case has it
    case AccountantKind::kRdp:
      return fmt::format("Renyi differential privacy at order {}", one.cost.rdp.order);
    case AccountantKind::kZcdp: return "zero-concentrated differential privacy";
    case AccountantKind::kPld: return "privacy loss distributions";
  }
  return "";
}

}  // namespace

std::string privacy_statement(const Job& job, const PrivacyCase& one) {
  const PrivacyOptions& o = job.privacy;
  const PrivacyTerms& terms = one.terms;
  const bool adapts = o.clip_kind == ClipKind::kAdaptive;
  std::string text = fmt::format(
      "Training satisfies ({:.4f}, {:g})-differential privacy for each client with all of its "
      "samples; "
      "two sets of clients are neighbours where {}. ",
      one.epsilon, one.delta, neighbours_of(terms.adjacency));
  if (const std::string flaw = privacy_flaw(o); !flaw.empty()) {
    text = fmt::format(
               "This run has no guarantee ({}). With privacy.seed = system and noise of "
               "integers the following would hold. ",
               flaw) +
           text;
  }
  text += draws_of(terms, one.rounds) + ". ";
  text += fmt::format(
      "An update of {} parameters is clipped to the length {:g}{} and rounded to multiples of 2^{} "
      "without becoming longer; {}. ",
      terms.n_params, one.round.clip,
      adapts ? ", which adapts by a noised count of longer ones," : "", one.round.lattice.exponent,
      noise_of(o, one));
  if (o.seed.of_system) {
    text += fmt::format("The noise{} from ChaCha20 with a key of the system's random numbers. ",
                        has_secret_draws(job) ? " and the draws come" : " comes");
  }
  text += fmt::format("The rounds are composed by {}. ", composition_of(one));
  if (one.client_rounds > 0) {
    text += fmt::format(
        "Against the server, which knows the draws and what it adds itself, the epsilon of a "
        "client in "
        "{} rounds is {:.4f}. ",
        one.client_rounds, one.of_server);
  } else {
    text += "The server, which draws the noise, is trusted. ";
  }
  return text +
         "The guarantee covers the models of all rounds, and no evaluation, loss or number of "
         "participants.\n";
}

}  // namespace hanse
