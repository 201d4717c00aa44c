#include "hanse/evaluation/sample_table.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "class_scores.hpp"
#include "hanse/base/choice.hpp"
#include "hanse/base/index.hpp"
#include "hanse/evaluation/softmax.hpp"

namespace hanse {

namespace {

Fold fold_of(int64_t client, const Federation& federation, SampleRange range) {
  if (client >= federation.clients()) return Fold::kHeldOut;
  if (client == SampleTable::kNobody) return Fold::kTest;
  if (range.begin < federation.train(client).end) return Fold::kTrain;
  const bool validates =
      federation.has_validation(client) && range.begin < federation.validation(client).end;
  return validates ? Fold::kValidation : Fold::kTest;
}

// "name", or "name_0,name_1".
std::string columns_of(const std::string& name, int64_t count) {
  if (count == 1) return name;
  std::string text;
  for (int64_t k = 0; k < count; ++k) text += fmt::format("{}{}_{}", k > 0 ? "," : "", name, k);
  return text;
}

std::string score_text(double score) {
  return std::isnan(score) ? "" : fmt::format("{:.17g}", score);
}

std::string target_text(float number) {
  return std::isnan(number) ? "" : fmt::format("{:.9g}", number);
}

// What a model says of one sample, as the table has it.
std::string scores_text(const LabelForm& form, std::span<const float> said) {
  std::string text;
  if (form.classes > 2) {
    std::vector<double> p(said.size());
    softmax(said, p);
    for (const double share : p) text.append(1, ',').append(score_text(share));
    return text;
  }
  for (const float z : said) {
    const bool is_chance = form.classes == 2 || form.multi_label;
    text.append(1, ',');
    text.append(is_chance ? score_text(logistic(static_cast<double>(z))) : target_text(z));
  }
  return text;
}

std::string label_text(const Federation& federation, int64_t sample) {
  if (federation.classes() > 0) return fmt::format("{}", federation.labels()[to_index(sample)]);
  const int64_t each = federation.label_form().values;
  std::string text;
  for (int64_t k = 0; k < each; ++k) {
    if (k > 0) text.append(1, ',');
    text.append(target_text(federation.targets()[to_index(sample * each + k)]));
  }
  return text;
}

}  // namespace

void SampleTable::add(int64_t client, const Federation& federation, SampleRange range,
                      std::span<const float> said) {
  if (range.size() == 0) return;
  parts_.push_back({client, fold_of(client, federation, range), range, std::ssize(said_)});
  said_.insert(said_.end(), said.begin(), said.end());
}

void SampleTable::gather(Communicator& comm) {
  std::vector<int64_t> scores_of, parts_of;  // by rank
  parts_ = comm.gatherv(std::span<const Part>(parts_), 0, &parts_of);
  said_ = comm.gatherv(std::span<const float>(said_), 0, &scores_of);
  auto part = parts_.begin();
  int64_t before = 0;  // scores of the ranks before
  for (std::size_t rank = 0; part != parts_.end(); before += scores_of[rank++]) {
    const auto end = part + parts_of[rank];
    for (; part != end; ++part) part->at += before;
  }
  std::ranges::sort(parts_, {}, [](const Part& p) { return std::pair(p.client, p.range.begin); });
}

double sample_table_bytes(const Federation& federation, const AskedMetrics& asked) {
  if (!asked.sample_table) return 0;
  constexpr double kTimes = 2;  // while it is gathered
  return kTimes * sizeof(float) * static_cast<double>(federation.samples()) *
         static_cast<double>(said_values(federation.label_form()));
}

std::string SampleTable::header(const Federation& federation) {
  const LabelForm form = federation.label_form();
  const int64_t labels = form.classes > 0 ? 1 : form.values;
  return fmt::format("client,row,fold,{},{}\n", columns_of("label", labels),
                     columns_of("score", said_values(form)));
}

std::string SampleTable::lines(std::size_t i, const Federation& federation) const {
  const Part& part = parts_[i];
  const LabelForm form = federation.label_form();
  const int64_t width = said_values(form);
  std::string text;
  for (int64_t sample = part.range.begin; sample < part.range.end; ++sample) {
    const int64_t at = part.at + (sample - part.range.begin) * width;
    text += fmt::format("{},{},{},{}{}\n", part.client, row_of(federation, sample),
                        name_of(part.fold), label_text(federation, sample),
                        scores_text(form, std::span(said_).subspan(to_index(at), to_index(width))));
  }
  return text;
}

}  // namespace hanse
