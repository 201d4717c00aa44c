// Which clients take part in a round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/state.hpp"

namespace hanse {

// A subset of the clients 0, ..., M-1, which knows its k-th member. Memory: M/8 bytes and a
// fiftieth more; a change or a selection costs O(log M).
class ClientSet {
 public:
  // All clients.
  explicit ClientSet(int64_t clients);

  int64_t clients() const { return clients_; }
  int64_t size() const { return size_; }
  bool full() const { return size_ == clients_; }
  bool contains(int64_t client) const { return (word(client) >> (client % 64) & 1U) != 0; }

  // Takes the client in, or out.
  void toggle(int64_t client);

  // The member with k smaller members. REQUIRES: 0 <= k < size().
  int64_t select(int64_t k) const;

 private:
  uint64_t word(int64_t client) const { return words_[static_cast<std::size_t>(client / 64)]; }

  int64_t clients_;
  int64_t size_;
  std::vector<uint64_t> words_;   // a bit a client
  std::vector<int64_t> members_;  // Fenwick tree over the members of each 512 clients
};

// The participants of one round. weights[i] is w_i with E[w_i] = 1 for every available client (0
// for the undrawn), so that sum_i w_i x_i estimates the sum of x over the available clients without
// bias.
struct Draw {
  std::vector<int64_t> clients;       // distinct, in the order drawn
  std::vector<int64_t> counts;        // N_i, the times each was drawn
  std::vector<double> probabilities;  // q_i, of each in the first of the draws
  std::vector<double> weights;        // w_i
  bool everyone = false;              // nothing was decided: all who are available take part, once

  std::size_t size() const { return clients.size(); }
  int64_t draws() const;  // K = sum_i N_i
};

// The model and the time with which a round's participants worked, in the draw's order.
struct WorkTimes {
  std::vector<int64_t> staleness;  // [K] rounds between that model and the present one; or empty: 0
  std::vector<double> durations;   // [K] seconds of the run's virtual clock; empty: it has none
};

// The reports of a round's participants, in the draw's order.
struct Feedback {
  std::span<const double> a;       // a_i = lambda_i^2 |g_i|^2, g_i the client's gradient or update
  std::span<const double> losses;  // mean mini-batch loss
  // As in WorkTimes.
  std::span<const int64_t> staleness = {};
  std::span<const double> durations = {};
  // The sum of the squared losses of the samples that the client trained, each as often as it was,
  // and their number; empty unless the sampler needs them.
  std::span<const double> squares = {};
  std::span<const double> sizes = {};
};

class ClientSampler : public Stateful {
 public:
  // `clients`: M; `per_round`: the most participants that a round can have.
  ClientSampler(int64_t clients, int64_t per_round) : clients_(clients), per_round_(per_round) {}

  int64_t clients() const { return clients_; }
  int64_t per_round() const { return per_round_; }

  // Draws n participants of a round (counted from 1) from the available clients: nobody when there
  // are none, everyone when they are not more than n of a federation of more. n is K of the round:
  // the draw, and what is learnt from it, are those of a sampler whose per_round() is n. Throws
  // InvalidArgument when the sampler cannot draw so many. REQUIRES: 0 <= n <= per_round().
  virtual Draw draw(int64_t round, int64_t n, RandomStream& stream) = 0;

  // The draw of n that chose these clients in this order, repeats where the sampler draws with
  // replacement: for replays. Throws InvalidArgument when the sampler cannot have drawn them:
  // another number than draw() gives, a client that is away, or one twice without replacement.
  virtual Draw impose(int64_t n, std::span<const int64_t> draws) = 0;

  // Probability that the next draw (the first of the round's) is this client, were all available:
  // toggle() does not change it.
  virtual double probability(int64_t client) const = 0;

  // Is every client as likely as any other, in every round? False if the sampler cannot say.
  virtual bool even() const { return false; }

  // May draw() ask for fewer than per_round()? False of a rule that cannot be told so.
  virtual bool draws_any_number() const { return true; }

  // Called after every round with its participants' reports; samplers that learn take them as
  // heard() says. Throws InvalidArgument, naming the client, when an a_i is negative and the
  // sampler uses it.
  virtual void observe(const Draw& /*draw*/, const Feedback& /*feedback*/) {}

  // These clients came or went; all are available at first, and after load(). Each stands once.
  virtual void toggle(std::span<const int64_t> clients) = 0;
  virtual const ClientSet& available() const = 0;

  // Does the next draw need a_i of all clients? Then observe_all() is called first, with a [M].
  virtual bool needs_all_clients() const { return false; }
  virtual void observe_all(std::span<const double> /*a*/) {}

  // Does a draw look at losses? Then candidates() names, before each draw, distinct clients that
  // are available; none where the draw needs no losses. take_candidates() gets F_i of these at the
  // model that the round sends, and draw() follows with the same stream. n is draw()'s.
  virtual bool needs_candidates() const { return false; }
  virtual std::vector<int64_t> candidates(int64_t /*round*/, int64_t /*n*/,
                                          RandomStream& /*stream*/) {
    return {};
  }
  virtual void take_candidates(std::span<const int64_t> /*clients*/,
                               std::span<const double> /*losses*/) {}

  // Does observe() need Feedback::squares and sizes?
  virtual bool needs_squares() const { return false; }
  // These clients were drawn, and came too late to count or not at all; each has the seconds that
  // it took or would have taken. It may be called before or behind the round's observe().
  virtual void observe_late(std::span<const int64_t> /*clients*/,
                            std::span<const double> /*durations*/) {}

  // Adds the sampler's own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}

  // Weights of the rule's experts, when it has some.
  virtual std::vector<double> expert_weights() const { return {}; }

 private:
  int64_t clients_;
  int64_t per_round_;
};

// The estimate of l(q) = 1/K sum_m a_m / q_m, the part of the gradient estimate's variance that the
// probabilities q decide, by the draw they made: 1/K^2 sum_i N_i a_i / q_i^2 (Zhao et al. 2025,
// eqs. 4 and 6). Unbiased for draws with replacement.
double variance_estimate(const Draw& draw, std::span<const double> a);

// Throws InvalidArgument when K is below 1, or above M without replacement.
void check_per_round(int64_t per_round, int64_t clients, bool replacement);

// What a sampler takes the numbers of a round for: one that is not finite, or beyond
// kLargestFeedback, is the largest of the others; without others 0. So one liar ends no run.
inline constexpr double kLargestFeedback = 1e30;
std::vector<double> heard(std::span<const double> numbers);

// Throws InvalidArgument that names the client whose a_i is negative or not finite.
void check_feedback(const Draw& draw, std::span<const double> a);

}  // namespace hanse
