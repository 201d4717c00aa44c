#include "hanse/evaluation/evaluation.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/balance.hpp"
#include "hanse/evaluation/sample_table.hpp"
#include "ranked_scores.hpp"

namespace hanse {

namespace {

// What is kept of an evaluation beside the table of clients; null: nothing.
struct Kept {
  ClassCounts* counts = nullptr;
  SampleTable* samples = nullptr;
};

constexpr int64_t kMostWaiting = int64_t{4} << 20;  // bytes of questions and their answers

// What is asked of a model on some samples of a client; it stays where it is until finish().
struct Question {
  int64_t client;
  SampleRange samples;
  Kept kept;
  ScoredSamples found;
  std::vector<int32_t> taken_for = {};
  EvaluationSums sums = {};

  void ask(Evaluator& model) {
    SampleResults results = found.results();
    if (!taken_for.empty()) results.classes = taken_for.data();
    model.ask(samples, results, sums);
  }
  int64_t bytes() const {
    return std::ssize(found.ranks) * 4 + std::ssize(found.scores) * 4 +
           std::ssize(found.outputs) * 4 + std::ssize(taken_for) * 4;
  }
  void keep(const Federation& federation) const {
    if (kept.samples) kept.samples->add(client, federation, samples, found.said());
  }
};

Question tested_on(const Federation& federation, int64_t client, SampleRange samples,
                   const AskedMetrics& asked, Kept kept) {
  Question question{
      client, samples, kept,
      ScoredSamples(asked, federation.label_form(), samples.size(), asked.any(), true)};
  if (asked.confusion && kept.counts)
    question.taken_for.resize(labels_of(federation, samples).size());
  return question;
}

Question trained_on(const Federation& federation, int64_t client, const AskedMetrics& asked,
                    Kept kept) {
  const AskedMetrics table{.sample_table = asked.sample_table && kept.samples};
  const SampleRange train = federation.train(client);
  return {client, train, kept, ScoredSamples(table, federation.label_form(), train.size(), false)};
}

TestScores scores_of(const Federation& federation, const Question& question,
                     const AskedMetrics& asked) {
  const SampleRange samples = question.samples;
  const ScoredSamples& answer = question.found;
  const EvaluationSums& sums = question.sums;
  const std::span<const int32_t> labels = labels_of(federation, samples);
  question.keep(federation);
  const auto n = static_cast<double>(sums.samples);
  TestScores found{.samples = n,
                   .loss = sums.loss / n,
                   .accuracy = sums.correct / n,
                   .auroc = std::numeric_limits<double>::quiet_NaN(),
                   .asked = {}};
  if (!answer.scores.empty()) found.auroc = area_under_roc(answer.scores, labels);
  if (!asked.any()) return found;
  const RankCounts own(labels, answer.ranks, federation.label_form().classes);
  ScoreSums scores = sum_scores(asked.scores, federation, samples, answer, sums.loss);
  add_whole_scores(asked.scores, federation, samples, answer.said(), scores);
  found.asked = asked_scores(asked, own, scores);
  if (ClassCounts* const counts = question.kept.counts) {
    counts->add(own);
    if (!question.taken_for.empty()) counts->add(labels, question.taken_for);
  }
  return found;
}

// What is asked of a client's model.
struct ClientQuestions {
  Question own;
  std::optional<Question> validation, train;  // of others than its own

  ClientQuestions(const Federation& federation, int64_t client, const EvaluationRequest& request,
                  Kept kept)
      : own(tested_on(federation, client, evaluated_samples(federation, client, request.asked.on),
                      request.asked,
                      {client < federation.clients() ? kept.counts : nullptr, kept.samples})) {
    if (client < federation.clients() && request.asked.on == EvaluateOn::kBoth) {
      const bool is_apart = federation.has_validation(client);
      validation = tested_on(federation, client, federation.validation(client), request.asked,
                             {nullptr, is_apart ? kept.samples : nullptr});
    }
    const bool is_own = own.samples.begin == federation.train(client).begin;
    if (request.split == Split::kTest || is_own) return;
    train = trained_on(federation, client, request.asked, {nullptr, kept.samples});
  }

  // Returns the bytes that questions and answers take.
  int64_t ask(Evaluator& model) {
    int64_t bytes = sizeof(*this);
    for (Question* question :
         {&own, validation ? &*validation : nullptr, train ? &*train : nullptr}) {
      if (question == nullptr) continue;
      question->ask(model);
      bytes += question->bytes();
    }
    return bytes;
  }

  ClientEvaluation answer(const Federation& federation, const EvaluationRequest& request) const {
    const TestScores on_own = scores_of(federation, own, request.asked);
    ClientEvaluation found{.samples = on_own.samples,
                           .loss = on_own.loss,
                           .accuracy = on_own.accuracy,
                           .train_loss = std::numeric_limits<double>::quiet_NaN(),
                           .auroc = on_own.auroc,
                           .asked = on_own.asked};
    found.client = own.client;
    if (validation) found.validation = scores_of(federation, *validation, request.asked);
    if (request.split == Split::kTest) return found;
    if (train) train->keep(federation);
    found.train_samples = train ? static_cast<double>(train->sums.samples) : found.samples;
    found.train_loss = train ? train->sums.loss / found.train_samples : found.loss;
    return found;
  }
};

}  // namespace

SampleRange evaluated_samples(const Federation& federation, int64_t client, EvaluateOn on) {
  const bool trained = client < federation.clients();
  const bool validates =
      trained ? on == EvaluateOn::kValidation : is_for_validation(federation, client);
  return validates ? federation.validation(client) : federation.test(client);
}

bool evaluated_apart(const Federation& federation, int64_t client, EvaluateOn on) {
  const SampleRange own = evaluated_samples(federation, client, on);
  return own.size() > 0 && own.begin >= federation.train(client).end;
}

double area_under_roc(std::span<const float> scores, std::span<const int32_t> labels) {
  return area_under_curve(scores, [&](std::size_t i) { return labels[i] == 1; });
}

EvaluationTable evaluate(const Federation& federation, const EvaluationRequest& request,
                         const std::function<Evaluator&(std::size_t i)>& model_of,
                         ClassCounts* counts, SampleTable* samples) {
  const Kept kept{counts, request.asked.sample_table ? samples : nullptr};
  EvaluationTable found;
  found.reserve(request.clients.size());
  std::deque<ClientQuestions> waiting;
  int64_t bytes = 0;
  Evaluator* model = nullptr;
  for (std::size_t i = 0; i < request.clients.size(); ++i) {
    Evaluator* const own = &model_of(i);
    if (model != nullptr && model != own) model->finish();
    model = own;
    bytes += waiting.emplace_back(federation, request.clients[i], request, kept).ask(*model);
    if (bytes < kMostWaiting && i + 1 < request.clients.size()) continue;
    model->finish();
    for (const ClientQuestions& one : waiting) found.push_back(one.answer(federation, request));
    waiting.clear();
    bytes = 0;
  }
  return found;
}

std::vector<int64_t> evaluated_clients(const Federation& federation, const AskedMetrics& asked,
                                       int64_t round) {
  const int64_t trained = federation.clients();
  const int64_t validation = trained + federation.validation_clients();
  std::vector<int64_t> clients;
  uint64_t group = 0;
  for (const auto& [begin, end] : {std::pair{int64_t{0}, trained},
                                   {trained, validation},
                                   {validation, trained + federation.held_out()}}) {
    std::vector<int64_t> own;
    own.reserve(to_index(end - begin));
    for (int64_t c = begin; c < end; ++c) {
      if (federation.train(c).size() + federation.test(c).size() > 0) own.push_back(c);
    }
    if (asked.clients > 0 && asked.clients < std::ssize(own)) {
      RandomStream(asked.seed, Purpose::kEvaluation, static_cast<uint64_t>(round), group)
          .shuffle(std::span(own));
      own.resize(to_index(asked.clients));
      std::ranges::sort(own);
    }
    if (clients.empty()) {
      clients = std::move(own);
    } else {
      clients.insert(clients.end(), own.begin(), own.end());
    }
    ++group;
  }
  return clients;
}

// Columns of differing numbers; and the clients' list, one that is sorted, and the losses that the
// next evaluation is compared with.
double evaluation_bytes(int64_t clients, int64_t classes, const AskedMetrics& asked, bool before) {
  constexpr double kBeside = 3;
  const double scores = 2 + (classes > 0 ? 1 : 0) + (classes == 2 ? 1 : 0) +
                        static_cast<double>(named_scores(asked, {}).size());
  const double times = 1 + (before ? 1 : 0) + (asked.on == EvaluateOn::kBoth ? 1 : 0);
  return sizeof(double) * static_cast<double>(clients) * (2 + scores * times + kBeside);
}

std::vector<int64_t> evaluation_share(const Communicator& comm, const Federation& federation,
                                      std::span<const int64_t> clients) {
  if (comm.size() == 1) return {clients.begin(), clients.end()};
  std::vector<int64_t> sizes;
  for (const int64_t c : clients) {
    sizes.push_back(federation.train(c).size() + federation.test(c).size());
  }
  const auto borders = cut_evenly(sizes, comm.size());
  const auto rank = to_index(comm.rank());
  return {clients.begin() + borders[rank], clients.begin() + borders[rank + 1]};
}

namespace {

constexpr int64_t kPieceSamples = 1024;  // of the common test set

// What a rank finds of its pieces of the common test set; rank 0 gets those of all, in order.
struct Pieces {
  std::vector<int64_t> places;
  std::vector<EvaluationSums> sums;
  std::vector<ScoreSums> scores;
  std::vector<float> said;  // of each sample, where it is needed

  void gather(Communicator& comm, SampleRange all, int64_t width) {
    places = comm.gatherv(std::span<const int64_t>(places), 0);
    const auto in_order = [&](const auto& values, int64_t of_piece) {
      auto sorted = values;
      auto from = values.begin();
      for (const int64_t place : places) {
        const auto to = sorted.begin() + place * of_piece;
        const auto count = std::min<std::ptrdiff_t>(of_piece, sorted.end() - to);
        std::copy_n(from, count, to);
        from += count;
      }
      return sorted;
    };
    sums = in_order(comm.gatherv(std::span<const EvaluationSums>(sums), 0), 1);
    scores = in_order(comm.gatherv(std::span<const ScoreSums>(scores), 0), 1);
    said = comm.gatherv(std::span<const float>(said), 0);
    if (std::ssize(said) == all.size() * width) said = in_order(said, kPieceSamples * width);
  }
};

Pieces evaluate_pieces(const Federation& federation, Evaluator& model, Communicator& comm,
                       const AskedMetrics& asked, bool keeps_said, RankCounts& counts) {
  const SampleRange all = federation.common_test();
  Pieces found;
  std::deque<Question> waiting;
  int64_t bytes = 0;
  const auto answer = [&] {
    model.finish();
    for (const Question& piece : waiting) {
      found.sums.push_back(piece.sums);
      found.scores.push_back(
          sum_scores(asked.scores, federation, piece.samples, piece.found, piece.sums.loss));
      const std::span<const float> said = piece.found.said();
      if (keeps_said) found.said.insert(found.said.end(), said.begin(), said.end());
      if (!asked.any()) continue;
      counts +=
          RankCounts(labels_of(federation, piece.samples), piece.found.ranks, federation.classes());
    }
    waiting.clear();
    bytes = 0;
  };
  for (int64_t begin = all.begin; begin < all.end; begin += kPieceSamples) {
    const int64_t piece = (begin - all.begin) / kPieceSamples;
    if (piece % comm.size() != comm.rank()) continue;
    const SampleRange part{begin, std::min(begin + kPieceSamples, all.end)};
    found.places.push_back(piece);
    waiting.push_back(
        {.client = SampleTable::kNobody,
         .samples = part,
         .kept = {},
         .found = ScoredSamples(asked, federation.label_form(), part.size(), asked.any())});
    waiting.back().ask(model);
    bytes += waiting.back().bytes();
    if (bytes >= kMostWaiting) answer();
  }
  answer();
  return found;
}

}  // namespace

Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix, const AskedMetrics& asked,
                             SampleTable* samples) {
  const SampleRange all = federation.common_test();
  if (all.size() == 0) return {};
  const bool fills_table = asked.sample_table && samples;
  RankCounts counts({}, {}, federation.classes());
  Pieces found = evaluate_pieces(federation, model, comm, asked,
                                 fills_table || needs_whole_range(asked.scores), counts);
  for (const std::span<int64_t> sums :
       {std::span<int64_t>(counts.samples), std::span<int64_t>(counts.correct),
        std::span<int64_t>(&counts.top5, 1)}) {
    if (asked.any()) comm.reduce(sums, ReduceOp::kSum, 0);
  }
  found.gather(comm, all, said_values(federation.label_form()));
  if (comm.rank() != 0) return {};
  EvaluationSums sums;
  ScoreSums all_scores;
  for (std::size_t i = 0; i < found.sums.size(); ++i) {
    sums += found.sums[i];
    for (std::size_t s = 0; s < kMostScores; ++s) all_scores[s] += found.scores[i][s];
  }
  add_whole_scores(asked.scores, federation, all, found.said, all_scores);
  if (fills_table) samples->add(SampleTable::kNobody, federation, all, found.said);
  const auto number = static_cast<double>(sums.samples);
  std::vector<double> values{sums.loss / number};
  if (federation.classes() > 0) values.push_back(sums.correct / number);
  for (const auto& [name, value] : named_scores(asked, asked_scores(asked, counts, all_scores))) {
    values.push_back(value);
  }
  Metrics metrics;
  for (const std::string& name : common_test_names(federation, asked)) {
    metrics.emplace_back(prefix + name, values[metrics.size()]);
  }
  return metrics;
}

std::vector<std::string> common_test_names(const Federation& federation,
                                           const AskedMetrics& asked) {
  if (federation.common_test().size() == 0) return {};
  std::vector<std::string> names{"common_loss"};
  if (federation.classes() > 0) names.push_back("common_accuracy");
  for (const auto& [name, value] : named_scores(asked, {})) names.push_back("common_" + name);
  return names;
}

}  // namespace hanse
